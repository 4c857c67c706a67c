"""A sheet over the workbench with one long text in it, scrolled by the keys of a pager."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.screens.dialog import Dialog, Keys
from dspark_tui.widgets.transcript import Transcript


class TextSheet(Dialog[None]):
    """text: for whoever inherits to compose and to fill."""

    BINDINGS: ClassVar = [
        Binding("escape,q,enter,ctrl+c", "dismiss(None)"),
        Binding("down,j", "scroll(1)"),
        Binding("up,k", "scroll(-1)"),
        Binding("pagedown,space,ctrl+d", "page(1)"),
        Binding("pageup,ctrl+u", "page(-1)"),
        Binding("home,g", "first"),
        Binding("end,G", "last"),
    ]
    KEY_HELP: ClassVar[Keys] = (
        ("Up Down k j", "a line up or down"),
        ("PgUp PgDn Space ^U ^D", "a page up or down"),
        ("Home End g G", "to the start or the end"),
        ("Esc Enter q ^C", "close"),
    )

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.text = Transcript(glyphs=glyphs, follow_key="End")

    def action_scroll(self, rows: int) -> None:
        self.text.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.text.scroll_relative(y=pages * max(1, self.text.size.height - 1), animate=False)

    def action_first(self) -> None:
        self.text.scroll_home(animate=False)

    def action_last(self) -> None:
        self.text.follow()
