"""Other processes, looked at while they come and go."""

from __future__ import annotations

import psutil


def ended(pid: int) -> bool:
    """Does it no longer run? One that nobody reaped has ended too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children(pid: int) -> list[int]:
    """The processes it started that are still there; none if it is gone itself."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []
