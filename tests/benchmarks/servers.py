"""Real servers on loopback, one at a time: ours and mlx_lm's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from engine.hardware import blas
from engine.models import catalog

DATA = Path(__file__).resolve().parents[2] / ".test-data"
STARTS_WITHIN = 300.0
SAME_BLAS = (
    "from engine.hardware import blas; blas.prepare(); "
    "import sys; sys.argv[0] = 'mlx_lm.server'; from mlx_lm.server import main; main()"
)
"""mlx_lm.server, unchanged, in a process whose BLAS is the one our engine uses."""


@dataclass(frozen=True)
class Server:
    """How to start one. model: the name requests carry. repeats: False for one round only."""

    name: str
    command: list[str]
    model: str
    repeats: bool = True
    env: dict[str, str] = field(default_factory=dict)


def ours(folder: Path, slots: int = 8) -> Server:
    command = [sys.executable, "-m", "engine", "--model", str(folder), "--max-batch", str(slots)]
    return Server("dspark-tui", command, str(folder))


def mlx_lm_as_it_comes(folder: Path) -> Server:
    command = [sys.executable, "-m", "mlx_lm.server", "--model", str(folder)]
    return Server("mlx_lm.server as it comes", command, str(folder), repeats=False)


def mlx_lm_same_blas(folder: Path) -> Server:
    command = [sys.executable, "-c", SAME_BLAS, "--model", str(folder)]
    return Server("mlx_lm.server + same BLAS, fp32", command, str(folder))


@contextmanager
def running(server: Server) -> Iterator[str]:
    """Start a server, yield its base URL once it answers, stop it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {"OPENBLAS_NUM_THREADS": str(blas.thread_count())} | server.env
    process = subprocess.Popen(
        [*server.command, "--port", str(port)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url, server.name)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def embedded() -> Path:
    """The embedded model as stored (4-bit), fetched the first time."""
    os.environ.setdefault("DSPARK_DATA_DIR", str(DATA))
    return catalog.ensure(catalog.resolve(None))


def embedded_fp32() -> Path:
    """The same weights dequantized to fp32 on disk, for servers that can't do it at load."""
    folder = DATA / "benchmarks" / "embedded-fp32"
    if not (folder / "config.json").exists():
        convert = (
            "import sys; from mlx_lm import convert; "
            "convert(sys.argv[1], mlx_path=sys.argv[2], dequantize=True, dtype='float32')"
        )
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-c", convert, str(embedded()), str(folder)], check=True)
    return folder


def _wait(process: subprocess.Popen[bytes], url: str, name: str) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"{name} ended at once, exit code {process.returncode}")
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"{name} did not answer within {STARTS_WITHIN:.0f} s")
