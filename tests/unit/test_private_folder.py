"""The worker's folder: short, private, and cleared away once its owner is gone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dspark_tui.private_folder import (
    LOCK_NAME,
    PREFIX,
    SOCKET_PATH_LIMIT,
    PrivateFolder,
    remove_abandoned,
)

OWNER = (
    "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
    "from dspark_tui.private_folder import PrivateFolder\n"
    "folder = PrivateFolder(); folder.socket.touch(); print(folder.path, flush=True)\n"
    "sys.stdin.read()"
)


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_deep_temporary_folder_does_not_make_the_socket_s_path_too_long(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = parent / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = PrivateFolder()
    assert len(str(folder.socket)) <= SOCKET_PATH_LIMIT
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert not list(deep.iterdir())
    folder.remove()
    assert not folder.path.exists()


def test_the_folder_of_a_killed_owner_goes_and_that_of_a_living_one_stays(parent: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdout is not None
    theirs, own = Path(owner.stdout.readline().strip()), PrivateFolder()
    remove_abandoned()
    assert theirs.is_dir()
    assert own.path.is_dir()
    owner.kill()
    owner.communicate()
    assert theirs.is_dir()
    remove_abandoned()
    assert not theirs.exists()
    assert own.path.is_dir()
    own.remove()


def test_what_is_not_provably_ours_is_left_alone(parent: Path) -> None:
    elsewhere = parent / "elsewhere"
    for name, mode in (
        (f"{PREFIX}unlocked", 0o700),
        (f"{PREFIX}open", 0o755),
        ("elsewhere", 0o700),
    ):
        (parent / name).mkdir(mode=mode)
    for folder in (parent / f"{PREFIX}open", elsewhere):
        (folder / LOCK_NAME).touch()
    (parent / f"{PREFIX}link").symlink_to(elsewhere)
    (parent / f"{PREFIX}file").touch()
    before = sorted(parent.rglob("*"))
    remove_abandoned()
    assert sorted(parent.rglob("*")) == before
