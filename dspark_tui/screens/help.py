"""All keys, from the table of actions."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from dspark_tui.actions import ACTIONS, Context, keys_in_words

INTRO = """\
Typing and commands are kept apart. In the composer all letters are text and only chords act; \
Esc goes to the panes, where single letters act; i or Enter comes back.
"""


class Help(ModalScreen[None]):
    BINDINGS: ClassVar = [Binding("escape,f1,q,question_mark,ctrl+c", "dismiss(None)")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="sheet") as sheet:
            sheet.border_title = "keys"
            sheet.border_subtitle = "Esc closes"
            yield Static(INTRO, markup=False)
            yield Static(_table())

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


def _table() -> Content:
    rows = [
        (keys_in_words(a, Context.COMPOSER), keys_in_words(a, Context.PANES), a) for a in ACTIONS
    ]
    left = max(len(row[0]) for row in rows) + 2
    middle = max(len(row[1]) for row in rows) + 2
    lines = [Content.styled(f"{'typing':<{left}}{'panes':<{middle}}", "bold $text-muted")]
    for composer, panes, action in rows:
        lines.append(
            Content.assemble(
                (f"{composer:<{left}}", "$primary"),
                (f"{panes:<{middle}}", "$primary"),
                action.label,
                (f"  {action.help}", "$text-muted"),
            )
        )
    return Content("\n").join(lines)
