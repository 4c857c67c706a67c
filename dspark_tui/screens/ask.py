"""One line of text, asked for."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content

from dspark_tui.screens.form import Form
from dspark_tui.widgets.fields import LineBox


class Answer(LineBox):
    KEYS: ClassVar = {"enter": "give()", "escape": "leave()"}


class Ask(Form[str | None]):
    """Gives the line, or None when left. hint: what is expected, shown while it is empty."""

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave")]

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._asked, self._value, self._hint = title, value, hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = Content(self._asked)
            sheet.border_subtitle = "Enter takes it   Esc leaves"
            yield Answer(self._value, id="answer", compact=True, placeholder=self._hint)

    def on_mount(self) -> None:
        self.begin_in("#answer")

    def action_give(self) -> None:
        self.dismiss(self.query_one(Answer).value)

    def action_leave(self) -> None:
        self.dismiss(None)
