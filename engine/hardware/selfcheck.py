"""MLX, its device and its BLAS as they are on this machine, told by a process of its own.

A broken MLX may end the process that imports it. `python -m engine.hardware.selfcheck` prints one
line of JSON; `examine` runs that and reads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version

DEADLINE = 120.0
"""Seconds; the first start on a machine also prepares the BLAS."""


class DeviceError(Exception):
    """MLX doesn't run here. `str()` is one line."""


@dataclass(frozen=True, slots=True)
class Device:
    """name: of the processor that computes, "cpu" where MLX has no better one. gflops: of the BLAS
    in fp32, None on a GPU."""

    mlx: str
    mlx_lm: str
    name: str
    blas: str
    gflops: float | None
    optimised: bool
    why: str


def examine() -> Device:
    """Start MLX in a child process and have it tell. Raises DeviceError."""
    # -P keeps a folder named "engine" in the current directory from being imported instead
    command = [sys.executable, "-P", "-m", "engine.hardware.selfcheck"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"MLX did not answer within {DEADLINE:.0f} s") from None
    if done.returncode < 0:
        raise DeviceError(f"importing MLX ended the process with signal {-done.returncode}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DeviceError(f"MLX can't be used: {last}")
    return Device(**json.loads(done.stdout))


def _here() -> Device:
    from engine.hardware import blas

    blas.prepare()
    import mlx.core as mx

    report = blas.check()
    device = mx.default_device()
    name = mx.device_info().get("device_name") or device.type.name
    threads = f", {report.threads} thread{'s' * (report.threads != 1)}" if report.threads else ""
    return Device(
        version("mlx"),
        version("mlx-lm"),
        str(name),
        f"{report.name}{threads}",
        report.gflops,
        report.optimised,
        report.why,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(_here())))
