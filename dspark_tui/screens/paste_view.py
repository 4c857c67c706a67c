"""A paste that is too long to be edited in the composer, to be read."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from dspark_tui.glyphs import Glyphs
from dspark_tui.pastes import Paste, drawn
from dspark_tui.widgets.transcript import Transcript

SHOWN, PIECE = 100_000, 1_000
"""Characters: of the paste, and of its lines: one is painted whole when it comes in sight."""


class PasteView(ModalScreen[None]):
    """Shows the beginning; all of it can be had in the editor."""

    BINDINGS: ClassVar = [
        Binding("escape,q,enter,ctrl+c,ctrl+o,full_stop", "dismiss(None)"),
        Binding("down,j", "scroll(1)"),
        Binding("up,k", "scroll(-1)"),
        Binding("pagedown,space,ctrl+d", "page(1)"),
        Binding("pageup,ctrl+u", "page(-1)"),
        Binding("home,g", "first"),
        Binding("end,G", "last"),
    ]

    def __init__(self, paste: Paste, glyphs: Glyphs, editor_key: str) -> None:
        """editor_key: by name, what opens the editor."""
        super().__init__()
        self._paste, self._editor_key = paste, editor_key
        self._text = Transcript(glyphs=glyphs, follow_key="End")

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = Content(drawn(self._paste.chip).strip("[]"))
            sheet.border_subtitle = f"too long to edit here   {self._editor_key} edits   Esc leaves"
            yield self._text

    def on_mount(self) -> None:
        self.call_after_refresh(self._fill)  # before there is a width each character has a row

    def _fill(self) -> None:
        text = self._paste.text
        lines = text[:SHOWN].split("\n")
        pieces = (line[at : at + PIECE] for line in lines for at in range(0, len(line) or 1, PIECE))
        self._text.add_user("\n".join(pieces))
        if len(text) > SHOWN:
            self._text.note(f"{len(text) - SHOWN:,} more characters")
        self.call_after_refresh(self.action_first)

    def action_scroll(self, rows: int) -> None:
        self._text.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        self._text.scroll_relative(y=pages * max(1, self._text.size.height - 1), animate=False)

    def action_first(self) -> None:
        self._text.scroll_home(animate=False)

    def action_last(self) -> None:
        self._text.follow()
