"""One question before something is lost."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Static

from dspark_tui.screens.dialog import Dialog


class Confirm(Dialog[bool]):
    """Answers True or False. yes: the verb for going ahead."""

    BINDINGS: ClassVar = [
        Binding("enter,y", "answer(True)"),
        Binding("escape,n,ctrl+c", "answer(False)"),
    ]
    KEY_HELP: ClassVar = (("Enter y", "do it"), ("Esc n ^C", "leave all as it is"))

    def __init__(self, question: str, yes: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._question, self._yes = question, yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            yield Static(f"Enter {self._yes}   Esc stay", markup=False, classes="keys")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)
