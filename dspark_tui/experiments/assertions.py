"""What an experiment demands of each answer. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NoReturn

from msgspec import Struct

from dspark_tui.experiments.template import filled


class Demand(StrEnum):
    """Named as in the experiment's file."""

    CONTAINS = "contains"
    REGEX = "regex"
    JSON = "json"
    MAX_LENGTH = "max_length"


class Assertion(Struct, frozen=True):
    """One demand. value: the text or the pattern, in which a variable stands for exactly the row's
    value; the most characters; nothing for JSON. ignore_case: of text and pattern.
    """

    name: str
    demand: Demand
    value: str = ""
    ignore_case: bool = False

    def holds(self, text: str, inputs: Mapping[str, str]) -> bool:
        match self.demand:
            case Demand.CONTAINS:
                wanted = self._wanted(inputs)
                if self.ignore_case:
                    return wanted.casefold() in text.casefold()
                return wanted in text
            case Demand.REGEX:
                pattern = self._wanted(inputs)
                return re.search(pattern, text, re.IGNORECASE * self.ignore_case) is not None
            case Demand.JSON:
                return is_json(text)
            case Demand.MAX_LENGTH:
                return len(text) <= int(self.value)

    def said(self, inputs: Mapping[str, str]) -> str:
        """The name, with the row's values where it quotes the text or the pattern."""
        quoted, wanted = (" ".join(text.split()) for text in (self.value, self._wanted(inputs)))
        return self.name.replace(quoted, wanted) if quoted else self.name

    def _wanted(self, inputs: Mapping[str, str]) -> str:
        """The text or the pattern for this row."""
        if self.demand is Demand.REGEX:
            return filled(self.value, inputs, re.escape)
        return filled(self.value, inputs)


def is_json(text: str) -> bool:
    """Is the whole text one JSON value, by the book: no NaN, nothing around it?"""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
