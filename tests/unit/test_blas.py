"""MLX computes on an optimised BLAS, or the report says why not. Each case is its own process,
because a process decides once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.hardware import blas

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="MLX brings its own elsewhere")
pytestmark = linux_only

SCRIPT = """
import dataclasses, json, os, sys
exec(os.environ.get("BEFORE", ""))
from engine.hardware import blas
prepared = blas.prepare()
assert "mlx.core" not in sys.modules or "mlx" in os.environ.get("BEFORE", "")
checked = blas.check()
assert blas.prepare() is blas.check() is checked
print(json.dumps([dataclasses.asdict(report) for report in (prepared, checked)], default=str))
"""


@dataclass(frozen=True)
class Outcome:
    prepared: dict[str, object]
    checked: dict[str, object]


def run(**environment: str) -> Outcome:
    """prepare() and check() in a process with these variables besides the tests' own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("DSPARK_")}
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**clean, **environment},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    prepared, checked = json.loads(finished.stdout)
    return Outcome(prepared, checked)


def test_the_copy_is_made_once_and_used_again(tmp_path: Path) -> None:
    first = run(XDG_CACHE_HOME=str(tmp_path))
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [str(path) for path in made] == [first.prepared["path"]]
    state = made[0].stat()
    again = run(XDG_CACHE_HOME=str(tmp_path))
    assert again.prepared == first.prepared
    assert (made[0].stat().st_ino, made[0].stat().st_mtime_ns) == (state.st_ino, state.st_mtime_ns)


def test_products_are_right_and_measured() -> None:
    outcome = run()
    assert outcome.checked["optimised"] is True
    assert isinstance(outcome.checked["gflops"], float)
    assert outcome.checked["gflops"] > 0
    assert "OpenBLAS" in str(outcome.checked["name"])


def test_a_damaged_copy_is_not_the_end(tmp_path: Path) -> None:
    path = Path(str(run(XDG_CACHE_HOME=str(tmp_path)).prepared["path"]))
    path.write_bytes(b"no library")
    outcome = run(XDG_CACHE_HOME=str(tmp_path))
    assert outcome.checked["optimised"] is True


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    outcome = run(XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(tmp_path))
    assert outcome.checked["optimised"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_off_leaves_the_reference() -> None:
    report = run(DSPARK_BLAS="off").checked
    assert report["optimised"] is False
    assert report["path"] is None
    assert "DSPARK_BLAS=off" in str(report["why"])


def test_a_library_of_the_users_own() -> None:
    path = str(blas.prepare().path)
    report = run(DSPARK_BLAS=path).checked
    assert report["path"] == path
    assert report["optimised"] is True
    assert "DSPARK_BLAS" in str(report["why"])


@pytest.mark.parametrize("setting", ["/nowhere/libblas.so", os.__file__])
def test_a_setting_that_is_no_library_is_named(setting: str) -> None:
    report = run(DSPARK_BLAS=setting).checked
    assert report["optimised"] is False
    assert setting in str(report["why"])


def test_a_library_without_products_is_refused() -> None:
    import _ctypes

    report = run(DSPARK_BLAS=_ctypes.__file__).checked
    assert report["optimised"] is False
    assert "cblas_sgemm" in str(report["why"])


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("import mlx.core", "before"),
        ("import shutil; shutil.which = lambda *_, **__: None", "patchelf"),
        (
            "import importlib.metadata as m\n"
            "def files(name): raise m.PackageNotFoundError(name)\n"
            "m.files = files",
            "pip install scipy-openblas32",
        ),
    ],
)
def test_what_stands_in_the_way_is_said(tmp_path: Path, before: str, why: str) -> None:
    report = run(BEFORE=before, XDG_CACHE_HOME=str(tmp_path)).checked
    assert report["optimised"] is False
    assert why in str(report["why"])


def test_wrong_products_are_found_out(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("void cblas_sgemm(void) {}")
    library = tmp_path / "libwrong.so"
    compiler = subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, source], check=False, capture_output=True
    )
    if compiler.returncode:
        pytest.skip("needs a C compiler")
    report = run(DSPARK_BLAS=str(library)).checked
    assert report["optimised"] is False
    assert "wrong products" in str(report["why"])


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({}, 3),
        ({"OMP_NUM_THREADS": "2,1"}, 2),
        ({"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "5"}, 5),
        ({"OPENBLAS_NUM_THREADS": "5", "DSPARK_THREADS": "6"}, 6),
        ({"DSPARK_THREADS": "none"}, 3),
        ({"DSPARK_THREADS": "0"}, 3),
    ],
)
def test_threads(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], threads: int
) -> None:
    for name in ("DSPARK_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert blas.thread_count() == threads


def test_one_core_still_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DSPARK_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert blas.thread_count() == 1


def test_the_report_as_a_capability() -> None:
    report = blas.BlasReport("OpenBLAS 1", Path("x"), 3, 81.6, True, "because")
    capability = report.capability()
    assert capability.feature == "blas"
    assert capability.effective == "OpenBLAS 1, 3 threads, 82 GFLOP/s"
    assert capability.why == "because"
