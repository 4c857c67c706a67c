"""Numbers of bytes in words."""

from __future__ import annotations


def readable(count: float) -> str:
    """Three digits and a decimal unit, such as "92.9 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
