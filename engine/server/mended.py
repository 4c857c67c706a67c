"""What JSON allows in a request and nothing behind it can bear: half characters, endless depth."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

DEEPEST = 100
"""Levels of lists and objects; what copies and writes them goes through by recursion."""

TOO_DEEP = "too_deep"


def mended(body: Any) -> Any:
    """The body with halves of surrogate pairs, which are no characters, replaced. Works in place.

    Raises PydanticCustomError for a body of more than `DEEPEST` levels.
    """
    nodes: list[tuple[Any, int]] = [(body, 1)]
    while nodes:
        node, depth = nodes.pop()
        if depth > DEEPEST:
            raise PydanticCustomError(TOO_DEEP, "The body is nested too deeply")
        if isinstance(node, dict):
            for key in list(node):
                node[_text(key)] = _text(node.pop(key))
            nodes += [(value, depth + 1) for value in node.values()]
        elif isinstance(node, list):
            node[:] = map(_text, node)
            nodes += [(value, depth + 1) for value in node]
    return body


def _text(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


class Asked(BaseModel):
    """A request's body. Unknown fields are accepted, a known one of another type is not: "no" for
    false would be read as true."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _mended(cls, body: Any) -> Any:
        return mended(body)
