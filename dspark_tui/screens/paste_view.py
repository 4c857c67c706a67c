"""A paste that is too long to be edited in the composer, to be read."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.conversation.pastes import Paste, drawn
from dspark_tui.screens.text_sheet import TextSheet

SHOWN, PIECE = 100_000, 1_000
"""Characters: of the paste, and of its lines: one is painted whole when it comes in sight."""


class PasteView(TextSheet):
    """Shows the beginning; all of it can be had in the editor."""

    BINDINGS: ClassVar = [Binding("ctrl+o,full_stop", "dismiss(None)")]
    KEY_HELP: ClassVar = (*TextSheet.KEY_HELP, ("^O .", "close, as they opened it"))

    def __init__(self, paste: Paste, glyphs: Glyphs, editor_key: str) -> None:
        """editor_key: by name, what opens the editor."""
        super().__init__(glyphs)
        self._paste, self._editor_key = paste, editor_key

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = Content(drawn(self._paste.chip).strip("[]"))
            sheet.border_subtitle = f"too long to edit here   {self._editor_key} edits   Esc leaves"
            yield self.text

    def on_mount(self) -> None:
        self.call_after_refresh(self._fill)  # before there is a width each character has a row

    def _fill(self) -> None:
        text = self._paste.text
        lines = text[:SHOWN].split("\n")
        pieces = (line[at : at + PIECE] for line in lines for at in range(0, len(line) or 1, PIECE))
        self.text.add_user("\n".join(pieces))
        if len(text) > SHOWN:
            self.text.note(f"{len(text) - SHOWN:,} more characters")
        self.call_after_refresh(self.action_first)
