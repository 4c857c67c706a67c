"""One cell of an experiment: what was asked, the whole answer, its figures and its rating."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.experiments.board import RATINGS, Entry, State
from dspark_tui.screens.text_sheet import TextSheet
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.grid_view import GridView

LOOK_PERIOD = 0.2
"""Seconds between two looks at an answer that is being written."""


class CellScreen(TextSheet):
    """Shows the cell under the grid's cursor, and takes the cursor along to others."""

    CSS_PATH: ClassVar = [*TextSheet.CSS_PATH, "../styles/experiment.tcss"]
    BINDINGS: ClassVar = [
        Binding("right,n,l", "step(1)"),
        Binding("left,p,h", "step(-1)"),
        Binding("y", "copy"),
        *(Binding(str(rating), f"rate({rating})") for rating in (0, *RATINGS)),
    ]
    KEY_HELP: ClassVar = (
        ("Right n l", "the next cell"),
        ("Left p h", "the cell before"),
        ("1–5", "rate the answer, a column of the results; 0 takes that back"),
        ("y", "copy the answer"),
        *TextSheet.KEY_HELP,
    )

    def __init__(self, grid: GridView, glyphs: Glyphs, rate: Callable[[int], None]) -> None:
        """rate: rates the answer under the cursor; 0 takes that back."""
        super().__init__(glyphs)
        self._grid, self._glyphs, self._rate = grid, glyphs, rate
        self._entry = grid.entry
        self._written = 0  # characters of a growing answer that are shown

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet"):
            yield self.text

    def on_mount(self) -> None:
        self._describe()
        self.call_after_refresh(self._begin)  # text is laid out for the width it has by then

    # ---- actions

    def action_step(self, step: int) -> None:
        """To the next cell as they are read, or the one before."""
        grid = self._grid
        if not grid.rows:
            return
        columns = len(grid.board.columns)
        place = grid.rows.index(grid.row) * columns + grid.column + step
        if 0 <= place < len(grid.rows) * columns:
            row, column = divmod(place, columns)
            grid.move_to(grid.rows[row], column)
            self._show()

    def action_rate(self, rating: int) -> None:
        self._rate(rating)
        self._describe()

    def action_copy(self) -> None:
        if self._entry is not None and self._entry.text:
            self.app.copy_to_clipboard(self._entry.text)

    # ---- drawing

    def _begin(self) -> None:
        self._show()
        self.set_interval(LOOK_PERIOD, self._look)

    def _look(self) -> None:
        """Show what came since the last look."""
        entry = self._grid.entry
        if entry is not None and entry is self._entry and entry.state is State.RUNNING:
            self.text.append(entry.text[self._written :])
            self._written = len(entry.text)
        elif entry is not self._entry:
            self._show()

    def _show(self) -> None:
        """Show the cell from its start."""
        entry = self._entry = self._grid.entry
        if entry is None:
            self.dismiss(None)
            return
        self._describe()
        text = self.text
        text.clear()
        if entry.cell.params.system:
            text.note(f"system: {entry.cell.params.system}")
        text.add_user(entry.cell.message)
        text.begin_answer()
        text.append(entry.text)
        self._written = len(entry.text)
        if entry.state is not State.RUNNING:
            text.end_answer(*self._ending(entry))
            if entry.problem:
                text.note(entry.problem)
            self._show_verdicts(entry)
            self.call_after_refresh(self.action_first)

    def _describe(self) -> None:
        """Which cell it is, and how it is rated."""
        entry, sheet = self._entry, self.query_one(Vertical)
        if entry is None:
            return
        cell, count = entry.cell, self._grid.board.experiment.count
        sheet.border_title = Content(drawable(f"{cell.number} of {count}   {cell.label}"))
        rated = f"rated {entry.rating}" if entry.rating else "1-5 rate"
        keys = "Left Right other cells   y copy   Esc grid"
        sheet.border_subtitle = f"{rated}   {keys}"

    def _ending(self, entry: Entry) -> tuple[str, str]:
        """Its figures, and why there is no whole answer."""
        if entry.ending is None:
            return "", "not asked yet"
        return entry.ending.below(_figures(entry), self._glyphs)

    def _show_verdicts(self, entry: Entry) -> None:
        assertions = self._grid.board.experiment.assertions
        for assertion, holds in zip(assertions, entry.verdicts, strict=False):
            sign = self._glyphs.done if holds else self._glyphs.stopped
            said = assertion.said(entry.cell.inputs)
            self.text.note(f"{sign} {said}{'' if holds else ': does not hold'}")


def _figures(entry: Entry) -> str:
    """An answer's counts and times, those that are known."""
    if entry.row is None:
        return ""
    tokens, seconds = entry.tokens, entry.seconds
    figures = [
        f"ttft {entry.ttft:.2f} s" if entry.ttft is not None else "",
        f"{seconds:.2f} s" if seconds is not None else "",
        f"{tokens:,} tok" if tokens is not None else "",
        f"{tokens / seconds:.1f} tok/s" if tokens and seconds else "",
    ]
    return "   ".join(filter(None, figures))
