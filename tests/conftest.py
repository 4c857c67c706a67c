"""Every test has a home folder of its own; what is slow to make is shared, between runs too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from engine.hardware import blas
from engine.models import catalog

TEST_DATA = Path(
    os.environ.get("DSPARK_TEST_DATA") or Path(__file__).resolve().parent.parent / ".test-data"
)
"""Holds the embedded model and the prepared BLAS; `.gitignore` knows it."""


OF_THE_TERMINAL = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM_PROGRAM", "TMUX"),
    *("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY"),
)


def pytest_configure() -> None:
    """Before any test module imports MLX."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["XDG_CACHE_HOME"] = str(TEST_DATA / "cache")
    os.environ["DSPARK_DATA_DIR"] = str(TEST_DATA)
    os.environ["XDG_STATE_HOME"] = str(TEST_DATA / "state")  # of what outlives a test's own home
    os.environ["HF_HUB_CACHE"] = str(TEST_DATA / "hub")  # the hub's library reads it once
    # MLX compiles kernels into one folder for all processes and ends one that loads what another
    # is still writing; several run here at once, on a fresh machine with nothing compiled yet.
    os.environ["MLX_DISABLE_COMPILE"] = "1"
    blas.prepare()
    # A fifth of a second for an example, as is usual, is too little on a busy machine.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The prepared embedded model's folder, fetched by the real code the first time."""
    return catalog.ensure(catalog.resolve(None))


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for sockets. Their paths may have a hundred bytes, which pytest's own folders, that
    tell of user, run, worker and test, can take alone."""
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def isolated_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An empty home and a usual terminal: settings, state, clipboard, colours and sizes of whoever
    runs the tests stay out, and safe."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for kind in ("config", "data", "state"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(home / kind))
    for name in OF_THE_TERMINAL:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("SSH_TTY", "none")  # copies go to the terminal under test, nowhere else
    return home
