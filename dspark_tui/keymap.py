"""The table of actions with a person's own keys, and what is wrong with those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dspark_tui.actions import ACTIONS, Action, Context
from dspark_tui.key_names import (
    ARRIVES_AS,
    PUNCTUATION,
    KeyNameError,
    edits_text,
    is_sent,
    key_name,
    parse_key,
)


class Keymap(Struct, frozen=True):
    """The actions in the table's order, each with the keys it has here."""

    actions: tuple[Action, ...] = ACTIONS

    @property
    def commands(self) -> tuple[str, ...]:
        """The ids that may be typed as a command: of actions that work without a key."""
        return tuple(action.id for action in self.actions if not action.per_key)

    def calls(self, context: Context) -> dict[str, str]:
        """Every key of the context, with the call of the screen's action it stands for."""
        return {
            key: f"{action.id}({key!r})" if action.per_key else f"{action.id}()"
            for action in self.actions
            for key in action.keys(context)
        }

    def bar(self, context: Context) -> list[tuple[str, Action]]:
        """The keys worth showing all the time, with their actions, most needed first."""
        found: dict[str, tuple[str, Action]] = {}
        for action in self.actions:
            if action.bar and action.keys(context):
                found[action.bar] = (action.keys(context)[0], action)  # the more specific is later
        return list(found.values())

    def keys_of(self, id: str) -> set[str]:
        """The action's keys, wherever they act."""
        return {
            key for a in self.actions if a.id == id for place in Context for key in a.keys(place)
        }

    def name(self, id: str, context: Context) -> str:
        """The action's first key as it is shown; its label where it has none."""
        (action,) = (action for action in self.actions if action.id == id)
        keys = action.keys(context)
        return key_name(keys[0]) if keys else action.label


class KeyProblem(Struct, frozen=True):
    """Why an action keeps the keys it had."""

    id: str
    text: str
    hint: str = ""


def spelled(action: Action) -> list[str]:
    """The action's keys as they are written in config.toml."""
    keys = dict.fromkeys(key for context in Context for key in action.keys(context))
    return [PUNCTUATION.get(key, key) for key in keys]


class _Unusable(ValueError):
    """Keys an action can't have. hint: what would do."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


def read_keymap(table: Mapping[str, Any], vim: bool = True) -> tuple[Keymap, list[KeyProblem]]:
    """The table with other keys for the actions named; one with a problem keeps its own.

    Keys that type or move the caret act in the panes only, all others wherever the action does.
    vim: may an action's vim keys be among those it has anyway?
    """
    usual = ACTIONS if vim else tuple(replace(action, vim=()) for action in ACTIONS)
    problems: list[KeyProblem] = []
    changed: dict[str, Action] = {}
    for id, value in table.items():
        try:
            changed[id] = _with_keys(_action(id), _keys(value))
        except (_Unusable, KeyNameError) as error:
            problems.append(KeyProblem(id, str(error), getattr(error, "hint", "")))
    while clash := _clash(changed, usual):
        problems.append(clash)
        del changed[clash.id]
    return Keymap(tuple(changed.get(action.id, action) for action in usual)), problems


def _action(id: str) -> Action:
    for action in ACTIONS:
        if action.id == id and action.per_key:
            raise _Unusable("has a key for each number, which stay")
        if action.id == id:
            return action
    near = get_close_matches(id, [action.id for action in ACTIONS], 1)
    hint = f"did you mean {near[0]}?" if near else "`dspark-tui config` lists all"
    raise _Unusable("is no action", hint)


def _keys(value: Any) -> tuple[str, ...]:
    """Textual's names, without repeats. Raises for those that no program gets."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _Unusable(f"takes a key or a list of keys, not {value!r}")
    keys = tuple(dict.fromkeys(parse_key(name) for name in names if name))
    for key in keys:
        if key in ARRIVES_AS:
            raise _Unusable(f"can't have {key_name(key)}: it arrives as {ARRIVES_AS[key]}")
    if keys and not any(map(is_sent, keys)):
        shown = " or ".join(map(key_name, keys))
        raise _Unusable(f"can't rely on {shown}", "many terminals don't send it; add another key")
    return keys


def _with_keys(action: Action, keys: tuple[str, ...]) -> Action:
    composer = tuple(key for key in keys if _acts(action, key, Context.COMPOSER))
    panes = tuple(key for key in keys if _acts(action, key, Context.PANES))
    for key in keys:
        if key not in composer + panes:
            raise _Unusable(f"can't have {key_name(key)}: it edits the text")
    both = tuple(key for key in composer if key in panes)
    return replace(
        action,
        both=both,
        vim=(),
        composer=tuple(key for key in composer if key not in both),
        panes=tuple(key for key in panes if key not in both),
    )


def _acts(action: Action, key: str, context: Context) -> bool:
    """Does a key given to the action act there? One it has anyway acts where it did."""
    usual = [place for place in Context if key in action.keys(place)]
    places = usual or [place for place in Context if action.keys(place)] or list(Context)
    return context in places and not (context is Context.COMPOSER and edits_text(key))


def _clash(changed: Mapping[str, Action], usual: Iterable[Action]) -> KeyProblem | None:
    """The first changed action that takes a key some other one has in the same context."""
    owners: dict[tuple[Context, str], str] = {}
    unchanged = [action for action in usual if action.id not in changed]
    for action in [*unchanged, *changed.values()]:
        for context in Context:
            for key in action.keys(context):
                owner = owners.setdefault((context, key), action.id)
                if owner != action.id:
                    where = "while typing" if context is Context.COMPOSER else "in the panes"
                    text = f"can't have {key_name(key)}: {where} it is {owner}'s"
                    return KeyProblem(action.id, text, f"give {owner} another key too")
    return None
