"""Whole screens as text, compared with files that somebody has looked at.

REVIEW=FOLDER python -m pytest tests/tui -k golden

writes them anew, and as pictures into the folder: look at the difference, and at the pictures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.pilot import Pilot

FOLDER = Path(__file__).parent / "screens"
DEADLINE = 60.0
SETTLING = 2.0
"""Seconds after which a screen that is to be reviewed stands still."""

Picture = Callable[[Pilot[Any]], str]


def screen_text(pilot: Pilot[Any]) -> str:
    """What the terminal shows, row by row, without blanks at the ends."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def screen_styles(pilot: Pilot[Any]) -> str:
    """Every style on the screen and the first text that has it, in reading order."""
    first: dict[str, str] = {}
    for strip in pilot.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if text.strip():
                first.setdefault(_named(style or Style()), text.strip())
    width = max(map(len, first))
    return "".join(f"{style:<{width}}  {text}\n" for style, text in first.items())


def _named(style: Style) -> str:
    """Colours and attributes, without the metadata that a style also carries."""
    return str(
        Style.from_color(style.color, style.bgcolor) + style.without_color.clear_meta_and_links()
    )


async def check(pilot: Pilot[Any], name: str, picture: Picture = screen_text) -> None:
    """Compare the screen, once it stands still, with the file NAME-WIDTHxHEIGHT.txt."""
    size = pilot.app.size
    file = FOLDER / f"{name}-{size.width}x{size.height}.txt"
    if review := os.environ.get("REVIEW"):
        await pilot.pause(SETTLING)
        file.write_text(picture(pilot), encoding="utf-8")
        svg = pilot.app.export_screenshot(title=file.stem)
        Path(review, f"{file.stem}.svg").write_text(svg, encoding="utf-8")
    expected, deadline = file.read_text(encoding="utf-8"), time.monotonic() + DEADLINE
    while picture(pilot) != expected and time.monotonic() < deadline:
        await pilot.pause(0.05)
    assert picture(pilot) == expected
