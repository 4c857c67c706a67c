"""Whole screens as text, compared with files that somebody has looked at.

REVIEW=1 python -m pytest tests/tui -k golden    # writes them anew: look at the difference
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from textual.app import App

FOLDER = Path(__file__).parent / "screens"


def screen_text(app: App[Any]) -> str:
    """What the terminal shows, row by row, without blanks at the ends."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def check(app: App[Any], name: str) -> None:
    """Compare the screen with the file NAME-WIDTHxHEIGHT.txt."""
    file = FOLDER / f"{name}-{app.size.width}x{app.size.height}.txt"
    if "REVIEW" in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(screen_text(app), encoding="utf-8")
    assert screen_text(app) == file.read_text(encoding="utf-8")
