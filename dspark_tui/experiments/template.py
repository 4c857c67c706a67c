"""`{{variable}}` in a text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_VARIABLE = re.compile(r"\{\{\s*([^{}]*[^{}\s])\s*\}\}")


def filled(
    text: str, values: Mapping[str, str], written: Callable[[str], str] = lambda value: value
) -> str:
    """The text with every variable replaced by its value, which is never looked into itself.

    written: how a value is put down. Raises KeyError with the name of a variable without a value.
    """
    return _VARIABLE.sub(lambda found: written(values[found[1]]), text)


def variables_of(text: str) -> list[str]:
    """The variables a text names, in order."""
    return _VARIABLE.findall(text)
