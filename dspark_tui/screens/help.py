"""All keys of the workbench, from the table of actions."""

from __future__ import annotations

from textwrap import wrap

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from dspark_tui.actions import Action, Context, keys_in_words
from dspark_tui.key_names import key_name
from dspark_tui.keymap import Keymap
from dspark_tui.screens.dialog import KeySheet

INTRO = """\
Typing and commands are kept apart. In the composer letters are text and only chords act; \
{leave} goes to the panes, where single letters act; {compose} comes back. ^ is Ctrl. \
{help} in a dialog shows the dialog's keys.
"""
TYPING_WIDTH = 11
PANES_WIDTH = 14


class Help(KeySheet):
    HEADING = "keys"

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap

    def parts(self) -> ComposeResult:
        leave, help = (self._keymap.name(id, Context.COMPOSER) for id in ("leave", "help"))
        compose = self._keymap.name("compose", Context.PANES)
        yield Static(INTRO.format(leave=leave, compose=compose, help=help), markup=False)
        yield KeyTable(self._keymap)


class KeyTable(Static):
    """Folded to the width there is, which a scrollbar beside it may make less."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__(markup=False)
        self._keymap = keymap

    def on_resize(self) -> None:
        self.update(_table(self._keymap, self.size.width))


def _table(keymap: Keymap, width: int) -> Content:
    heading = f"{'typing':<{TYPING_WIDTH}}{'panes':<{PANES_WIDTH}}"
    return Content("\n").join(
        [Content.styled(heading, "bold"), *(_entry(action, width) for action in keymap.actions)]
    )


def _entry(action: Action, width: int) -> Content:
    """An action's keys and what it does, continued under itself where it is long."""
    typing = action.keys(Context.COMPOSER)
    keys = f"{key_name(typing[0]) if typing else '':<{TYPING_WIDTH}}"
    keys += f"{keys_in_words(action, Context.PANES):<{PANES_WIDTH}}"
    words = f"{action.label}: {action.help}"
    first, *rest = wrap(words, max(20, width - len(keys)))
    more = "".join(f"\n{'':{len(keys)}}{line}" for line in rest)
    described = Content(first + more).stylize("bold", 0, len(action.label))
    return Content.assemble((keys, "$role-strong"), described)
