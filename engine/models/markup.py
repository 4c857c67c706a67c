"""How a model's own format sets apart thoughts and tool calls in what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

CallParser = Callable[[str, Sequence[dict[str, Any]]], Any]
"""From what stands between the call tags, and the request's tools, to one call or a list of them:
dicts with a name and arguments. Raises whatever it likes on text that is none."""


def json_calls(text: str, tools: Sequence[dict[str, Any]]) -> Any:
    """Calls written as JSON objects, the commonest way."""
    return json.loads(text)


@dataclass(frozen=True, slots=True)
class Markup:
    """The tags in a model's text. call_end "": a call goes on to the end of the answer.

    knows_tools: whether the chat template can tell the model about tools.
    """

    think_start: str = "<think>"
    think_end: str = "</think>"
    call_start: str = "<tool_call>"
    call_end: str = "</tool_call>"
    parse_call: CallParser = json_calls
    knows_tools: bool = False

    @classmethod
    def of(cls, wrapped: TokenizerWrapper) -> Markup:
        """As mlx-lm reads it out of the vocabulary and the chat template."""
        plain = cls()
        thinking = (wrapped.think_start or plain.think_start, wrapped.think_end or plain.think_end)
        if not wrapped.has_tool_calling:
            return cls(*thinking)
        return cls(
            *thinking,
            call_start=wrapped.tool_call_start,
            call_end=wrapped.tool_call_end or "",
            parse_call=wrapped.tool_parser,
            knows_tools=True,
        )

    @property
    def tags(self) -> tuple[str, ...]:
        return self.think_start, self.think_end, self.call_start, self.call_end
