"""A line to type words into, over the list of what has them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList

from dspark_tui.screens.dialog import Keys
from dspark_tui.screens.form import Form, Result
from dspark_tui.widgets.fields import LineBox

Found = TypeVar("Found")

USUAL_WIDTH = 72
"""Cells of a line, until the screen is laid out."""


class Query(LineBox):
    KEYS: ClassVar = {
        "enter": "choose()",
        "escape": "leave()",
        "up": "move(-1)",
        "down": "move(+1)",
        "pageup": "move(-10)",
        "pagedown": "move(+10)",
    }


class Finder(Form[Result | None], Generic[Found, Result]):
    """Gives what was chosen, or None when left. SUBJECT: what is listed, HINT: the keys, in the
    border; PLACEHOLDER: in the empty line; QUERY: the line, perhaps with more keys."""

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave")]
    KEY_HELP: ClassVar[Keys] = (
        ("Up Down", "through the list"),
        ("PgUp PgDn", "ten lines at once"),
        ("Esc ^C", "leave all as it was"),
    )
    SUBJECT: ClassVar[str]
    HINT: ClassVar[str]
    PLACEHOLDER: ClassVar[str]
    QUERY: ClassVar[type[Query]] = Query

    def __init__(self) -> None:
        super().__init__()
        self._found: Sequence[Found] = ()

    @abstractmethod
    def look_up(self, query: str) -> None:
        """Have what has the words shown, at once or later."""

    @abstractmethod
    def entry(self, found: Found, width: int) -> Content:
        """As a line of the list, which is cut to `width` cells."""

    @abstractmethod
    def choose(self, found: Found) -> None:
        """Dismiss with the result of it."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = self.SUBJECT
            sheet.border_subtitle = self.HINT
            yield self.QUERY(id="query", compact=True, placeholder=self.PLACEHOLDER)
            yield OptionList(compact=True)

    def on_mount(self) -> None:
        self._list.can_focus = False
        self.begin_in("#query")
        self.look_up("")

    @property
    def query_text(self) -> str:
        return self.query_one(Query).value

    @property
    def highlighted(self) -> Found | None:
        at = self._list.highlighted
        return None if at is None or at >= len(self._found) else self._found[at]

    def show(self, found: Sequence[Found], counted: str, at: int = 0) -> None:
        """List it. counted: how many there are, for the border. at: which is highlighted."""
        self._found = found
        self._fill()
        self._list.highlighted = at if found else None
        self.query_one(".sheet").border_title = f"{self.SUBJECT}: {counted}"

    def on_resize(self) -> None:
        self.call_after_refresh(self._refit)

    def on_input_changed(self) -> None:
        self.look_up(self.query_text)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._list.highlighted = event.option_index
        self.action_choose()

    def action_move(self, by: int) -> None:
        if self._found:
            at = (self._list.highlighted or 0) + by
            self._list.highlighted = max(0, min(at, len(self._found) - 1))

    def action_choose(self) -> None:
        if (found := self.highlighted) is not None:
            self.choose(found)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _refit(self) -> None:
        at = self._list.highlighted
        self._fill()
        self._list.highlighted = at

    def _fill(self) -> None:
        width = self._list.scrollable_content_region.width or USUAL_WIDTH
        self._list.clear_options()
        self._list.add_options(self.entry(found, width) for found in self._found)

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)
