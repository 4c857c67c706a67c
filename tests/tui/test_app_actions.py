"""The table of actions: complete, free of clashes, and made of keys terminals can send."""

from __future__ import annotations

import pytest

from dspark_tui.actions import ACTIONS, Action, Context, key_table
from dspark_tui.key_names import PUNCTUATION, key_name
from dspark_tui.keymap import Keymap
from dspark_tui.screens.workbench import Workbench
from dspark_tui.textual_private import PasteParser
from tests.tui.conftest import OpenBench

NEVER = {
    *("ctrl+b", "ctrl+h", "ctrl+i", "ctrl+m", "ctrl+left_square_bracket", "ctrl+s"),
    *("ctrl+backslash", "ctrl+tab", "ctrl+enter", "f6", "f7", "f10", "f11"),
}
"""Keys that tmux, the terminal or the text area keep, or that arrive as another key."""

ALIASES = ("shift+enter", "alt+enter")
"""Extra keys, where a terminal tells them apart; the first key of each action never needs that."""

LEGACY = {
    "enter": "\r", "tab": "\t", "escape": "\x1b", "space": " ", "shift+tab": "\x1b[Z",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
    "home": "\x1b[H", "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~",
}  # fmt: skip


@pytest.mark.parametrize("context", Context)
def test_no_key_means_two_things_in_one_context(context: Context) -> None:
    keys = [key for action in ACTIONS for key in action.keys(context)]
    assert len(keys) == len(set(keys))
    assert not NEVER & set(keys)


def test_letters_are_text_while_typing() -> None:
    typed = [key for action in ACTIONS for key in action.keys(Context.COMPOSER)]
    assert not [key for key in typed if len(key) == 1 or key in ("space", "plus")]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_every_action_exists_and_is_within_reach(action: Action) -> None:
    assert callable(getattr(Workbench, f"action_{action.id}"))
    reached = action.keys(Context.PANES) or action.keys(Context.COMPOSER)
    assert reached or action.palette
    assert action.help
    for context in Context:
        for key in action.keys(context)[:1]:
            assert key not in ALIASES
            assert not key.startswith("alt+")


def legacy_bytes(key: str) -> str:
    """What a terminal that knows no newer protocol sends for the key."""
    if key.startswith("ctrl+"):
        return chr(ord(key[-1]) & 0x1F)
    return LEGACY.get(key) or PUNCTUATION.get(key) or key


@pytest.mark.parametrize("context", Context)
async def test_legacy_bytes_reach_every_action(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    calls = Keymap().calls(context)
    firsts = [action.keys(context)[0] for action in ACTIONS if action.keys(context)]
    called: list[str] = []

    async def noted(call: str) -> None:
        called.append(call)

    async with open_bench() as bench:
        if context is Context.PANES:
            await bench.press("escape")
        monkeypatch.setattr(bench.workbench, "run_action", noted)
        # ^Q is the app's own, so that it works from everywhere
        monkeypatch.setattr(bench.workbench, "action_quit", lambda: called.append("quit()"))
        for key in firsts:
            parser = PasteParser()
            for event in (*parser.feed(legacy_bytes(key)), *parser.feed("")):
                bench.app.post_message(event)
        await bench.until(lambda: len(called) == len(firsts))
    assert called == [calls[key] for key in firsts]


def test_the_key_bar_shows_no_word_twice() -> None:
    for context in Context:
        words = [action.bar for _, action in Keymap().bar(context)]
        assert len(words) == len(set(words))
        assert "help" in words
        assert "quit" in words


def test_key_names() -> None:
    names = {"ctrl+c": "^C", "f1": "F1", "plus": "+", "shift+tab": "Shift+Tab", "G": "G"}
    assert {key: key_name(key) for key in names} == names


def test_the_readme_s_table_has_a_row_for_every_action() -> None:
    table = key_table()
    assert table.count("\n") == len(ACTIONS) + 2
    assert "| Send | `Enter` |" in table
    assert "`1–8`" in table
