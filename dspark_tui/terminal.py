"""What the terminal's name says it can't do."""

from __future__ import annotations

import os

from dspark_tui.config import Loaded


def refuse_dumb(instead: str) -> None:
    """Raises ValueError with one line where nothing can be placed on a screen.

    instead: what works there.
    """
    name = os.environ.get("TERM", "")
    if name in ("dumb", "unknown"):
        raise ValueError(
            f"TERM={name} can't show a full screen; {instead}, or set TERM to what this terminal is"
        )


def fit(loaded: Loaded) -> None:
    """Draw with ASCII where the font has little more, unless the person decided."""
    if os.environ.get("TERM") == "linux" and "ascii" not in loaded.sources:
        loaded.set("ascii", True, "TERM=linux")
