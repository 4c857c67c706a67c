"""Text inputs that act in the order that was typed, however fast, and lose no part of an emoji."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.geometry import Offset
from textual.widgets import Input, TextArea

from dspark_tui.widgets.keys import act_on_key


class LineBox(Input):
    """One line. KEYS: the screen's action for a key; all other keys are the input's own."""

    KEYS: ClassVar[Mapping[str, str]] = {}

    async def _on_key(self, event: events.Key) -> None:
        if await act_on_key(self, event, self.KEYS) or await _edit(self, event, Input):
            return
        if text := _unseen_text(event):
            event.stop()
            event.prevent_default()
            self.replace(text, *self.selection)


class TextBox(TextArea):
    """Several lines. KEYS: as for LineBox."""

    DEFAULT_CSS = """
    TextBox .text-area--placeholder { color: $text-disabled; }
    """
    KEYS: ClassVar[Mapping[str, str]] = {}

    async def _on_key(self, event: events.Key) -> None:
        if await act_on_key(self, event, self.KEYS) or await _edit(self, event, TextArea):
            return
        if text := _unseen_text(event):
            event.stop()
            event.prevent_default()
            self.replace(text, *self.selection, maintain_selection_offset=False)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Not while an undo has taken the caret's line away: the caret moves only after that."""
        row, _ = self.cursor_location
        if row >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)


async def _edit(
    box: Input | TextArea, event: events.Key, kind: type[Input] | type[TextArea]
) -> bool:
    """Do at once what Textual binds the key to, a Backspace say: later, text would overtake it."""
    for binding in Binding.make_bindings(kind.BINDINGS):
        if binding.key == event.key and await box.app.run_action(binding.action, box):
            event.stop()
            event.prevent_default()
            return True
    return False


def _unseen_text(event: events.Key) -> str:
    """A joiner or an unusual blank: part of what is typed, though Textual takes it for no text."""
    character = "" if event.is_printable else event.character or ""
    unseen = len(character) == 1 and unicodedata.category(character) in ("Cf", "Zs")
    return character if unseen else ""
