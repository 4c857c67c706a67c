"""What is wrong with a value, in words for whoever sent it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

TAG_LIMIT = 40  # characters

WORDS = {
    "bool_type": "has to be true or false",
    "dict_type": "has to be an object",
    "finite_number": "has to be a finite number",
    "float_type": "has to be a number",
    "greater_than": "has to be more than {gt}",
    "greater_than_equal": "has to be at least {ge}",
    "int_type": "has to be a whole number",
    "less_than": "has to be less than {lt}",
    "less_than_equal": "has to be at most {le}",
    "list_type": "has to be a list",
    "literal_error": "has to be {expected}",
    "missing": "is missing",
    "model_attributes_type": "has to be an object",
    "model_type": "has to be an object",
    "none_required": "can't be used here; leave it out",
    "string_too_long": "has too many characters: at most {max_length} can be used",
    "string_too_short": "has too few characters: at least {min_length} needed",
    "string_type": "has to be a text",
    "too_long": "has too many entries: at most {max_length} can be used",
    "too_short": "has too few entries: at least {min_length} needed",
    "union_tag_invalid": "the type {tag} can't be used here; there are {expected_tags}",
    "union_tag_not_found": "has to say its type",
}
"""By pydantic's name for the fault; `{…}` are its own details."""


def in_words(fault: Mapping[str, Any]) -> str:
    """One of a ValidationError's faults. One that is not known here is told as it came."""
    known = WORDS.get(fault["type"])
    if known is None:
        return str(fault["msg"])
    details = dict(fault.get("ctx", {}))
    if "tag" in details:
        details["tag"] = _tag(fault["input"].get("type"))
    if "expected" in details:
        details["expected"] = PYTHON_VALUE.sub(_as_json, details["expected"])
    return known.format(**details)


PYTHON_VALUE = re.compile(r"(?<!')\b(?:True|False|None)\b(?!')")
"""One that pydantic writes as Python does; in quotes it is a text."""


def _as_json(value: re.Match[str]) -> str:
    return "null" if value[0] == "None" else value[0].lower()


def _tag(value: Any) -> str:
    return ascii(value[:TAG_LIMIT]) if isinstance(value, str) else json.dumps(value)[:TAG_LIMIT]
