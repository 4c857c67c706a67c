"""A screen's own keys, on as many lines as they need."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

GAP = "   "


class KeyLines(Static):
    """Each entry is a key and what it does; none is broken in two."""

    def __init__(self, keys: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys = keys

    def show(self, keys: Sequence[tuple[str, str]]) -> None:
        """Other keys count now."""
        if keys != self._keys:
            self._keys = keys
            self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        lines = [Content(" ")]
        for key, words in self._keys:
            entry = Content.assemble((key, "bold $primary"), f" {words}{GAP}")
            if lines[-1].cell_length + entry.cell_length - len(GAP) > self.size.width:
                lines.append(Content(" "))
            lines[-1] = Content.assemble(lines[-1], entry)
        self.update(Content("\n").join(line.rstrip() for line in lines))
