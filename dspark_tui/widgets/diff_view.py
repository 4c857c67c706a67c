"""A diff on screen, drawn line by line."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.parts import Row
from dspark_tui.comparison.compare import Diff
from dspark_tui.comparison.diff_layout import (
    SIDE_BY_SIDE_FROM,
    Mark,
    changed,
    side_by_side,
    unified,
)


class DiffView(ScrollView, can_focus=True):
    """Two columns where they fit, else one. `show` lays out aside: the screen stays quick."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"diff-view--{mark}" for mark in Mark}
    DEFAULT_CSS = """
    DiffView {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        & > .diff-view--removed { color: $role-removed; text-style: underline; }
        & > .diff-view--added { color: $role-added; text-style: underline; }
        & > .diff-view--rule { color: $role-pane-blur; }
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._diff: Diff | None = None
        self._rows: list[Row] = []
        self._one_column = False

    def show(self, diff: Diff) -> None:
        self._diff = diff
        self._lay_out()

    def toggle_columns(self) -> None:
        """Change between two columns and one, where there is room for two."""
        self._one_column = not self._one_column
        self._lay_out()

    def to_change(self, step: int) -> None:
        """Scroll to the next (+1) or previous (-1) stretch of rows that differ."""
        starts = [
            y
            for y, row in enumerate(self._rows)
            if changed(row) and not (y and changed(self._rows[y - 1]))
        ]
        here = round(self.scroll_y)
        ahead = [y for y in starts if y > here] if step > 0 else [y for y in starts if y < here]
        if ahead:
            self.scroll_to(y=ahead[0 if step > 0 else -1], animate=False)

    def on_resize(self) -> None:
        self._lay_out()

    def render_line(self, y: int) -> Strip:
        number = round(self.scroll_y) + y
        row = self._rows[number] if number < len(self._rows) else ()
        style = self.get_component_rich_style
        strip = Strip([Segment(text, style(f"diff-view--{mark}")) for text, mark in row])
        return strip.adjust_cell_length(self.size.width, self.rich_style)

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width  # without the scrollbar's place
        if self._diff is not None and width > 0:
            self.run_worker(self._laid_out(self._diff, width), exclusive=True)

    async def _laid_out(self, diff: Diff, width: int) -> None:
        if width >= SIDE_BY_SIDE_FROM and not self._one_column:
            rows = await asyncio.to_thread(side_by_side, diff, width, self._glyphs.rule)
        else:
            rows = await asyncio.to_thread(unified, diff, width)
        self._rows = rows
        self.virtual_size = Size(width, len(rows))
        self.refresh()
