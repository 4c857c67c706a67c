"""Earlier prompts, newest first: typing narrows them down, Enter takes one up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList

from dspark_tui.conversation.history import PromptSearch
from dspark_tui.screens.form import Form
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.fields import LineBox

SHOWN = 200
"""Characters of a prompt in the list."""


class Query(LineBox):
    KEYS: ClassVar = {
        "enter": "choose()",
        "escape": "leave()",
        "up": "move(-1)",
        "down": "move(+1)",
        "ctrl+r": "move(+1)",
        "pageup": "move(-10)",
        "pagedown": "move(+10)",
    }


class PromptList(Form[int | None]):
    """Gives the prompt's place in the history, or None when left."""

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave")]

    def __init__(self, prompts: Sequence[str]) -> None:
        """prompts: oldest first."""
        super().__init__()
        self._prompts = list(prompts)
        self._search = PromptSearch(prompts)
        self._places: list[int] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = "earlier prompts"
            sheet.border_subtitle = "type to search   Enter takes it   Esc leaves"
            yield Query(id="query", compact=True, placeholder="words in it")
            yield OptionList(compact=True)

    def on_mount(self) -> None:
        self._list.can_focus = False
        self.begin_in("#query")
        self._show()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    def on_input_changed(self) -> None:
        self._show()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._places[event.option_index])

    def action_move(self, by: int) -> None:
        if self._places:
            at = (self._list.highlighted or 0) + by
            self._list.highlighted = max(0, min(at, len(self._places) - 1))

    def action_choose(self) -> None:
        at = self._list.highlighted
        if at is not None:
            self.dismiss(self._places[at])

    def action_leave(self) -> None:
        self.dismiss(None)

    def _show(self) -> None:
        """List what has the words typed so far."""
        self._places = self._search.places(self.query_one(Query).value)
        options = self._list
        options.clear_options()
        options.add_options(_entry(self._prompts[at]) for at in self._places)
        options.highlighted = 0 if self._places else None
        self.query_one(".sheet").border_title = f"earlier prompts: {len(self._places)}"


def _entry(prompt: str) -> Content:
    """Its first line with text in it, and how many more there are."""
    lines = [line.strip() for line in prompt.strip().split("\n")]
    more = f"  +{len(lines) - 1} lines" if len(lines) > 1 else ""
    return Content.assemble(drawable(lines[0][:SHOWN]), (more, "$text-muted"))
