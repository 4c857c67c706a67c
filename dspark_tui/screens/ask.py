"""One line of text, asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dspark_tui.screens.form import Form
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.fields import LineBox

Attempt = Callable[[str], Awaitable[str]]
"""Tries to use the line; gives why it can't be used, or ""."""


class Answer(LineBox):
    KEYS: ClassVar = {"enter": "give()", "escape": "leave()"}


class Ask(Form[str | None]):
    """Gives the line, or None when left. hint: what is expected, shown while it is empty. attempt:
    while there is a problem, it stands below the line, which can be mended."""

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave")]
    KEY_HELP: ClassVar = (("Enter", "take what the line says"), ("Esc ^C", "leave all as it was"))

    def __init__(
        self, title: str, value: str = "", hint: str = "", attempt: Attempt | None = None
    ) -> None:
        super().__init__()
        self._asked, self._value, self._hint = title, value, hint
        self._attempt = attempt
        self._problem = Static(id="problem", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = Content(self._asked)
            sheet.border_subtitle = "Enter takes it   Esc leaves"
            yield Answer(self._value, id="answer", compact=True, placeholder=self._hint)
            yield self._problem

    def on_mount(self) -> None:
        self._complain("")
        self.begin_in("#answer")

    def on_input_changed(self) -> None:
        self._complain("")

    async def action_give(self) -> None:
        line = self.query_one(Answer).value
        if self._attempt is not None and (problem := await self._attempt(line)):
            self._complain(problem)
        else:
            self.dismiss(line)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _complain(self, problem: str) -> None:
        self._problem.update(drawable(problem))
        self._problem.display = bool(problem)
