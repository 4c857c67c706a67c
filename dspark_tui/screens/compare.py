"""Two answers against each other, word by word."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.comparison.compare import Counts, compare
from dspark_tui.screens.dialog import Dialog
from dspark_tui.widgets.diff_view import DiffView


class Compare(Dialog[None]):
    """What the right answer has otherwise than the left one."""

    CSS_PATH: ClassVar = [*Dialog.CSS_PATH, "../styles/comparing.tcss"]
    BINDINGS: ClassVar = [
        Binding("escape,q,d,ctrl+c", "dismiss(None)"),
        Binding("n", "change(1)"),
        Binding("N,p", "change(-1)"),
        Binding("u", "columns"),
        Binding("j", "scroll(1)"),
        Binding("k", "scroll(-1)"),
        Binding("g", "first"),
        Binding("G", "last"),
    ]
    KEY_HELP: ClassVar = (
        ("n", "to the next change"),
        ("N p", "to the change before"),
        ("u", "one column instead of two, and back"),
        ("Up Down k j", "a line up or down"),
        ("PgUp PgDn", "a page up or down"),
        ("Home End g G", "to the start or the end"),
        ("Esc q d ^C", "close"),
    )

    def __init__(self, left: str, right: str, names: tuple[str, str], glyphs: Glyphs) -> None:
        super().__init__()
        self._left, self._right, self._names = left, right, names
        self._view = DiffView(glyphs)
        self._counts = Static("comparing", id="counts", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet tall") as sheet:
            left, right = self._names
            sheet.border_title = Content(f"- {left}   + {right}")
            sheet.border_subtitle = "n N changes   u columns   Esc closes"
            yield self._counts
            yield self._view

    def on_mount(self) -> None:
        self._view.focus()
        self.run_worker(self._compare(), exit_on_error=False)

    async def _compare(self) -> None:
        diff = await asyncio.to_thread(compare, self._left, self._right)
        self._counts.update(in_words(diff.counts))
        self._view.show(diff)

    def action_change(self, step: int) -> None:
        self._view.to_change(step)

    def action_columns(self) -> None:
        self._view.toggle_columns()

    def action_scroll(self, rows: int) -> None:
        self._view.scroll_relative(y=rows, animate=False)

    def action_first(self) -> None:
        self._view.scroll_home(animate=False)

    def action_last(self) -> None:
        self._view.scroll_end(animate=False)


def in_words(counts: Counts) -> str:
    if not counts.removed and not counts.added:
        return f"words: all {counts.same:,} equal"
    return (
        f"words: {counts.same:,} equal   -{counts.removed:,} removed   "
        f"+{counts.added:,} added   {100 * counts.similarity:.0f}% alike"
    )
