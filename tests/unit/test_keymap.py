"""A person's own keys: what they may be called, which are refused, and who gets them."""

from __future__ import annotations

import string

import pytest
from textual.keys import _character_to_key

from dspark_tui.actions import ACTIONS, Action, Context
from dspark_tui.key_names import KeyNameError, is_sent, key_name, parse_key
from dspark_tui.keymap import Keymap, read_keymap, spelled

EVERY_KEY = sorted({key for action in ACTIONS for place in Context for key in action.keys(place)})


def keys(keymap: Keymap, id: str, context: Context) -> tuple[str, ...]:
    (action,) = (action for action in keymap.actions if action.id == id)
    return action.keys(context)


def problem(**table: object) -> str:
    """Of a table that has one; the actions then have their usual keys."""
    keymap, problems = read_keymap(table)
    assert keymap == Keymap()
    (found,) = problems
    return f"{found.id} {found.text} ({found.hint})"


@pytest.mark.parametrize("character", string.punctuation + string.ascii_letters + "7é ")
def test_a_character_is_called_what_textual_calls_it(character: str) -> None:
    assert parse_key(character) == _character_to_key(character)


@pytest.mark.parametrize("key", EVERY_KEY)
def test_a_key_may_be_written_as_it_is_shown(key: str) -> None:
    assert parse_key(key_name(key)) == key
    assert parse_key(key) == key


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("Ctrl+K", "ctrl+k"),
        ("^k", "ctrl+k"),
        ("control+shift+F5", "ctrl+shift+f5"),
        ("shift+a", "A"),
        ("ctrl++", "ctrl+plus"),
        ("^[", "ctrl+left_square_bracket"),
        ("Esc", "escape"),
        ("PgDn", "pagedown"),
        ("Return", "enter"),
        (" f1 ", "f1"),
    ],
)
def test_other_ways_to_write_a_key(written: str, key: str) -> None:
    assert parse_key(written) == key


@pytest.mark.parametrize(
    "written", ["cmd+k", "f13", "ctrl+", "g g", "\x07", "", "hyper+x", "ctl+x"]
)
def test_what_is_no_key(written: str) -> None:
    with pytest.raises(KeyNameError):
        parse_key(written)


def test_terminals_send_the_first_key_of_every_action() -> None:
    firsts = [
        action.keys(place)[0] for action in ACTIONS for place in Context if action.keys(place)
    ]
    assert all(map(is_sent, firsts))
    rare = ("ctrl+h", "ctrl+enter", "alt+x", "ctrl+shift+x", "ctrl+1", "shift+enter")
    assert not any(map(is_sent, rare))


def test_chords_act_wherever_the_action_does_and_letters_in_the_panes() -> None:
    keymap, problems = read_keymap({"zoom": ["f8", "u"], "help": ["f9", "H"], "send": "ctrl+e"})
    assert problems == []
    assert keys(keymap, "zoom", Context.COMPOSER) == ()
    assert keys(keymap, "zoom", Context.PANES) == ("f8", "u")
    assert keys(keymap, "help", Context.COMPOSER) == ("f9",)
    assert keys(keymap, "help", Context.PANES) == ("f9", "H")
    assert keys(keymap, "send", Context.COMPOSER) == ("ctrl+e",)
    assert keys(keymap, "send", Context.PANES) == ()
    calls = keymap.calls(Context.PANES)
    assert calls["H"] == "help()"
    assert "question_mark" not in calls
    assert keymap.name("help", Context.PANES) == "F9"
    assert [key for key, action in keymap.bar(Context.COMPOSER) if action.id == "send"] == [
        "ctrl+e"
    ]


def test_an_action_may_get_its_first_key_or_lose_its_last() -> None:
    keymap, problems = read_keymap({"themes": ["f8", "underscore"], "stop_all": [], "zoom": ""})
    assert problems == []
    assert keys(keymap, "themes", Context.COMPOSER) == ("f8",)
    assert keys(keymap, "themes", Context.PANES) == ("f8", "underscore")
    assert keys(keymap, "stop_all", Context.PANES) == ()
    assert keymap.name("stop_all", Context.PANES) == "Stop all panes"


def test_two_actions_may_swap_keys() -> None:
    keymap, problems = read_keymap({"stop": "S", "stop_all": "s"})
    assert problems == []
    assert keymap.calls(Context.PANES)["s"] == "stop_all()"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"zom": "u"}, "zom is no action (did you mean zoom?)"),
        ({"zoom": 3}, "takes a key or a list of keys, not 3"),
        ({"zoom": "cmd+k"}, "'cmd+k' never reaches a program in a terminal"),
        ({"zoom": "strg+k"}, "'strg+k' is no key"),
        ({"zoom": "^m"}, "can't have ^M: it arrives as Enter"),
        ({"zoom": "ctrl+shift+z"}, "many terminals don't send it"),
        ({"send": "s"}, "can't have s: it edits the text"),
        ({"zoom": "y"}, "in the panes it is copy_answer's (give copy_answer another key too)"),
        ({"target": "^p"}, "while typing it is palette's"),
        ({"go": "a"}, "has a key for each number"),
    ],
)
def test_a_problem_names_the_cause_and_the_action_keeps_its_keys(
    table: dict[str, object], words: str
) -> None:
    assert words in problem(**table)


def test_of_two_that_want_the_same_key_the_first_gets_it() -> None:
    keymap, problems = read_keymap({"zoom": "u", "stop": "u"})
    assert [problem.id for problem in problems] == ["stop"]
    assert keys(keymap, "zoom", Context.PANES) == ("u",)
    assert keys(keymap, "stop", Context.PANES) == ("s",)


def test_who_is_refused_gives_no_key_away() -> None:
    """zoom wants stop's key, which stop would leave but may not."""
    keymap, problems = read_keymap({"zoom": "s", "stop": "y"})
    assert {problem.id for problem in problems} == {"zoom", "stop"}
    assert keymap == Keymap()


def test_a_key_that_some_terminals_lack_is_fine_beside_one_that_all_have() -> None:
    _, problems = read_keymap({"zoom": ["alt+z", "u"]})
    assert problems == []


@pytest.mark.parametrize("action", [a for a in ACTIONS if not a.per_key], ids=lambda a: a.id)
def test_the_usual_keys_written_down_change_nothing(action: Action) -> None:
    keymap, problems = read_keymap({action.id: spelled(action)})
    assert problems == []
    for context in Context:
        assert set(keys(keymap, action.id, context)) == set(action.keys(context))


def test_the_vim_keys_can_be_switched_off_and_stay_a_person_s_to_give() -> None:
    keymap, problems = read_keymap({"zoom": "j"}, vim=False)
    assert problems == []
    calls = keymap.calls(Context.PANES)
    assert calls["j"] == "zoom()"
    gone = {key for action in ACTIONS for key in action.vim} - {"j"}
    assert {"h", "k", "l", "g", "G", "slash"} <= gone
    assert not gone & calls.keys()
    usual = Keymap().calls(Context.PANES)
    assert set(usual.values()) == set(calls.values())
    assert problem(zoom="j") == (
        "zoom can't have j: in the panes it is scroll_down's (give scroll_down another key too)"
    )
