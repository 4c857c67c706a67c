"""The bottom line: the keys that matter where the focus is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from dspark_tui.actions import Context
from dspark_tui.key_names import key_name
from dspark_tui.keymap import Keymap

GAP = "  "


class KeyBar(Widget):
    """Shows as many keys as fit, whole ones only; a click does what the key does."""

    context = Context.COMPOSER

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._hints: list[Content] = []

    def switch(self, context: Context) -> None:
        self.context = context
        self._hints = []
        self.refresh()

    def hint(self, keys: Sequence[tuple[str, str]]) -> None:
        """Show these keys, with what they do, until the next switch."""
        self._hints = [_entry(key, words) for key, words in keys]
        self.refresh()

    def render(self) -> Content:
        line = Content(" ")
        for entry in self._hints or self._entries():
            if line.cell_length + entry.cell_length > self.size.width:
                break
            line = Content.assemble(line, entry, GAP)
        return line

    def _entries(self) -> Iterator[Content]:
        for key, action in self._keymap.bar(self.context):
            entry = _entry(key_name(key), action.bar)
            yield entry.stylize(Style.from_meta({"@click": f"screen.{action.id}"}))


def _entry(key: str, words: str) -> Content:
    return Content.assemble((key, "bold $primary"), f" {words}")
