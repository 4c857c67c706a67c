"""Screens as they were reviewed, at the common sizes."""

from __future__ import annotations

import pytest

from dspark_tui.glyphs import DEFAULT
from dspark_tui.screens.compare import Compare
from dspark_tui.widgets.diff_view import DiffView
from tests.tui.conftest import OpenBench, panes
from tests.tui.golden import check

SIZES = [(200, 50), (120, 35), (80, 24), (60, 20)]

LEFT = """\
A rainbow needs sun behind you and rain in front.

Light enters a drop, bends, reflects off its far side and bends again on its way out. Red leaves \
at about 42 degrees, violet at 40, so each colour reaches you from drops of its own.

- **Sun**: low, behind you
- **Rain**: in front
"""
RIGHT = """\
A rainbow needs the sun behind you and rain ahead.

Light enters a drop, slows, bends, reflects once and bends again on its way out. Red leaves at \
about 42 degrees, violet at 40: 光线 of each colour reaches you from its own drops.

- **Sun**: low, behind you
- **Rain**: ahead [/b]

No two people see the same one.
"""


@pytest.mark.parametrize("size", SIZES)
async def test_golden_diff(open_bench: OpenBench, size: tuple[int, int]) -> None:
    async with open_bench(size=size, settings=panes(2)) as bench:
        names = ("1 control", "2 hot")
        await bench.app.push_screen(Compare(LEFT, RIGHT, names, DEFAULT))
        view = bench.app.screen.query_one(DiffView)
        await bench.until(lambda: view.virtual_size.height)
        await bench.pilot.pause()
        check(bench.app, "diff")
