"""One setting: what values it takes, and what it means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dspark_tui.engines.address import Address
from engine.speculate import DRAFTER_BITS

BATCH_LIMIT, DRAFT_LIMIT = 256, 64
PRECISIONS = ("auto", "fp32", "fp16", "bf16", "stored")


class Setting(Struct, frozen=True):
    """check: takes a value; says in words what would be right when it is wrong, else "".
    meaning: in one line."""

    check: Callable[[Any], str]
    meaning: str


def text(value: Any) -> str:
    return "" if isinstance(value, str) else "a text in quotes"


def address(value: Any) -> str:
    try:
        Address.parse(value)
    except (ValueError, AttributeError, TypeError):
        return "http://HOST:PORT or unix:///PATH"
    return ""


def server(value: Any) -> str:
    """An address, or "" for none."""
    return "" if value == "" else address(value)


def boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


def batch(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= BATCH_LIMIT
    return "" if fits else f"a whole number from 1 to {BATCH_LIMIT}"


def draft(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= DRAFT_LIMIT
    return "" if fits else f"a whole number up to {DRAFT_LIMIT}, 0 for as many as pay"


def drafter_bits(value: Any) -> str:
    fits = type(value) is int and value in (0, *DRAFTER_BITS)
    return "" if fits else f"{' or '.join(map(str, DRAFTER_BITS))}, 0 for as it is stored"


def share(value: Any) -> str:
    fits = type(value) in (int, float) and 0 <= value <= 1
    return "" if fits else "a number from 0 to 1"


def length(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if fits else "a whole number, 0 for never"


def one_of(*names: str) -> Callable[[Any], str]:
    return lambda value: "" if value in names else f"one of {', '.join(names)}"
