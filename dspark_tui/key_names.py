"""Keys by name: as people write them, as Textual calls them, and whether terminals send them."""

from __future__ import annotations

import string
import unicodedata

SHOWN = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn"}

MODIFIERS = {"ctrl": "ctrl", "control": "ctrl", "alt": "alt", "option": "alt", "shift": "shift"}
OTHER_MODIFIERS = {"cmd", "command", "super", "win", "meta", "hyper"}

ALIASES = {"esc": "escape", "pgup": "pageup", "pgdn": "pagedown", "return": "enter",
           "del": "delete", "ins": "insert"}  # fmt: skip

CARET = {"left", "right", "up", "down", "home", "end"}
MOVING = CARET | {"pageup", "pagedown", "insert", "delete", *(f"f{n}" for n in range(1, 13))}
NAMED = MOVING | {"enter", "escape", "tab", "space", "backspace"}

ARRIVES_AS = {
    "ctrl+h": "Backspace",
    "ctrl+i": "Tab",
    "ctrl+m": "Enter",
    "ctrl+left_square_bracket": "Esc",
}

_UNICODE_TO_TEXTUAL = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}


class KeyNameError(ValueError):
    """Not a key a program can have. `str()` says why."""


def key_name(key: str) -> str:
    """The key as people write it: "^C", "F1", "Enter", "+"."""
    *modifiers, base = key.split("+")
    name = SHOWN.get(base) or PUNCTUATION.get(base) or base
    if modifiers == ["ctrl"] and len(name) == 1:
        return f"^{name.upper()}"
    name = name.capitalize() if name == base and len(base) > 1 else name
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])


def parse_key(text: str) -> str:
    """Textual's name for a key as people write it: "^C", "ctrl+c", "F1", "Esc", "+", "shift+tab".

    Raises KeyNameError.
    """
    name = text.strip() or text[:1]
    if len(name) > 1 and name[0] == "^":
        name = f"ctrl+{name[1:]}"
    head, _, base = name[:-1].rpartition("+")  # the last character may be a plus
    modifiers = {_modifier(word, text) for word in head.split("+") if word}
    base = _base(base + name[-1:], text, plain=not modifiers)
    if modifiers == {"shift"} and len(base) == 1:
        return base.upper()
    return "+".join([*sorted(modifiers), base])


def is_sent(key: str) -> bool:
    """Does every common terminal send the key, as itself?"""
    *modifiers, base = key.split("+")
    if not modifiers or key == "shift+tab":
        return True
    if modifiers == ["ctrl"] and key not in ARRIVES_AS:
        letter = len(base) == 1 and base in string.ascii_lowercase
        if letter or base in ("backslash", "right_square_bracket", "underscore"):
            return True
    return "alt" not in modifiers and base in MOVING


def edits_text(key: str) -> bool:
    """Does the key type, delete or move the caret where text is typed?"""
    base = key.removeprefix("shift+")
    return len(base) == 1 or base in CARET | PUNCTUATION.keys() | {"space", "backspace", "delete"}


def _modifier(word: str, text: str) -> str:
    name = word.strip().lower()
    if name in OTHER_MODIFIERS:
        raise KeyNameError(f"{text!r} never reaches a program in a terminal")
    if name not in MODIFIERS:
        raise KeyNameError(f"{text!r} is no key")
    return MODIFIERS[name]


def _base(word: str, text: str, plain: bool) -> str:
    name = word if len(word) == 1 else word.strip().lower()
    name = ALIASES.get(name, name)
    if len(name) == 1 and name.isprintable():
        return _of_character(name if plain else name.lower())
    if name in NAMED or name in PUNCTUATION:
        return name
    raise KeyNameError(f"{text!r} is no key")


def _of_character(character: str) -> str:
    if character == " ":
        return "space"
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return _UNICODE_TO_TEXTUAL.get(name, name)


PUNCTUATION = {_of_character(character): character for character in string.punctuation}
"""Textual's names of the signs a keyboard has."""
