"""Processes that compile at once, on a machine where nothing is compiled yet, do not meet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MLX compiles for a GPU elsewhere")

SCRIPT = """
import os, tempfile
from engine.hardware import kernels
kernels.prepare()
print(os.environ.get("TMPDIR", ""), tempfile.gettempdir(), flush=True)
input()
import mlx.core as mx
print(mx.compile(lambda x: mx.sigmoid(x) * x + 1)(mx.zeros(3)).tolist(), flush=True)
input()
"""


class Compiling:
    """A process that has prepared, then compiles a kernel, then ends."""

    def __init__(self, cache: Path) -> None:
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        environment.pop("MLX_DISABLE_COMPILE")
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.folder, self.pythons = self._line().split(" ")

    def compile(self) -> None:
        self._go_on()
        assert self._line() == "[1.0, 1.0, 1.0]"

    def end(self) -> None:
        self._go_on()
        self.process.communicate(timeout=300)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def _go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def kernels(folder: str) -> list[Path]:
    return list(Path(folder).rglob("*.so"))


def test_each_process_compiles_into_its_own_folder_and_finds_it_again(tmp_path: Path) -> None:
    one, other = Compiling(tmp_path), Compiling(tmp_path)
    assert one.folder != other.folder
    assert one.pythons == other.pythons
    assert not one.pythons.startswith(str(tmp_path)), "Python's temporary files are elsewhere"
    for process in (one, other):
        process.compile()
        process.end()
        assert kernels(process.folder)
    again = Compiling(tmp_path)
    assert again.folder == one.folder, "nobody holds it any more"
    before = {kernel: kernel.stat().st_mtime_ns for kernel in kernels(one.folder)}
    again.compile()
    again.end()
    assert {kernel: kernel.stat().st_mtime_ns for kernel in kernels(one.folder)} == before


def test_half_a_kernel_is_compiled_again(tmp_path: Path) -> None:
    killed = Compiling(tmp_path)
    killed.compile()
    killed.kill()
    (kernel,) = kernels(killed.folder)
    os.truncate(kernel, 2000)
    empty = kernel.with_name("libempty.so")
    empty.touch()
    again = Compiling(tmp_path)
    assert again.folder == killed.folder
    again.compile()
    again.end()
    assert not empty.exists()


def test_without_a_place_for_it_all_stays_as_it_was(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    process = Compiling(in_the_way)
    assert process.folder == os.environ.get("TMPDIR", "")
    process.kill()
