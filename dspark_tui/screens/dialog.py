"""What all dialogs share: their styles, which the first frame doesn't wait for, and their help."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from dspark_tui.themed import ThemedApp

Result = TypeVar("Result")
Keys = Sequence[tuple[str, str]]
"""Keys as people write them, and what they do."""


class KeyHelp(Screen[Result]):
    """A screen in which the key that opens the help does so too. KEY_HELP: all the keys it has."""

    KEY_HELP: ClassVar[Keys] = ()

    async def on_key(self, event: events.Key) -> None:
        """Where one types "?", that is typed."""
        if isinstance(self.app, ThemedApp) and event.key in self.app.help_keys:
            event.stop()
            self.action_help()

    def action_help(self) -> None:
        self.app.push_screen(DialogHelp(self.KEY_HELP))


class Dialog(ModalScreen[Result], KeyHelp[Result]):
    """A screen over another one."""

    CSS_PATH: ClassVar = ["../styles/dialogs.tcss"]


class KeySheet(Dialog[None]):
    """Keys, to be read. HEADING: whose."""

    BINDINGS: ClassVar = [Binding("escape,q,ctrl+c", "dismiss(None)")]
    HEADING: ClassVar[str]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="sheet") as sheet:
            sheet.border_title = self.HEADING
            sheet.border_subtitle = "Esc closes"
            yield from self.parts()

    @abstractmethod
    def parts(self) -> ComposeResult:
        """What the sheet shows."""

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_help(self) -> None:
        """The key that opens the help also closes it."""
        self.dismiss(None)


class DialogHelp(KeySheet):
    """Of the dialog below it."""

    HEADING = "keys here"

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._keys = keys

    def parts(self) -> ComposeResult:
        width = max(cell_len(keys) for keys, _ in self._keys) + 3
        for keys, words in self._keys:
            with Horizontal(classes="key"):
                key = Static(Content.styled(keys, "$role-strong"))
                key.styles.width = width
                yield key
                yield Static(words, markup=False)
