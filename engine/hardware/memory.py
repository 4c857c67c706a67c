"""How much memory a model may take."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes this process can still take without swapping; where only that is known, all there are.

    On Linux: what the kernel calls available, or what a container's limit leaves if less.
    """
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if sys.platform != "linux":
        return installed
    return min(_meminfo() or installed, _cgroup() or installed)


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        return None


def _cgroup() -> int | None:
    """What the container's memory limit leaves; page cache counts as free."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return max(0, limit - used + int(stat["inactive_file"]))
    except (OSError, KeyError, ValueError):  # no limit reads "max"; older kernels have no file
        return None
