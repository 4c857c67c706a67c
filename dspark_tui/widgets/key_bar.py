"""The bottom line: the keys that matter where the focus is."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.key_names import key_name
from dspark_tui.keymap import Keymap

GAP = "  "


class KeyBar(Static):
    """Shows as many keys as fit, whole ones only; a click does what the key does."""

    context = Context.COMPOSER

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap

    def switch(self, context: Context) -> None:
        self.context = context
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        line = Content(" ")
        for key, action in self._keymap.bar(self.context):
            entry = Content.assemble((key_name(key), "bold $primary"), f" {action.bar}")
            entry = entry.stylize(Style.from_meta({"@click": f"screen.{action.id}"}))
            if line.cell_length + entry.cell_length > self.size.width:
                break
            line = Content.assemble(line, entry, GAP)
        self.update(line)
