"""A text that is looked at often and rarely reads differently."""

from __future__ import annotations

from textual.visual import VisualType
from textual.widgets import Static


class Line(Static):
    """Never markup. Updates that change no character cost nothing: no layout, no repaint."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        if content != self.content:
            super().update(content, layout=layout)
