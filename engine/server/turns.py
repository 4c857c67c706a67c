"""A chat's messages as chat templates take them, tools and all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engine.models.markup import Markup
from engine.server.errors import ApiError
from engine.server.wire import Message
from engine.server.wire_tools import ToolCall

INTRODUCTION = """You may call these functions, given as JSON:
{tools}
To call one, answer with a JSON object between tags:
{start}
{{"name": "the function", "arguments": {{…}}}}
{end}"""
"""For models whose own template can't tell them about tools."""

Turn = dict[str, Any]


def turns_of(messages: Sequence[Message], markup: Markup, tools: Sequence[Turn]) -> list[Turn]:
    """The template's messages. Tools are spelled out in them where the template knows none.

    Raises ApiError for a message that lacks what its role needs.
    """
    for index, message in enumerate(messages):
        _check(message, f"messages[{index}]")
    if markup.knows_tools:
        return [_turn(message) for message in messages]
    turns = [_spelled_out(message, markup) for message in messages]
    return _introduced(turns, markup, tools) if tools else turns


def _check(message: Message, param: str) -> None:
    missing = None
    if message.content is None and message.role != "assistant":
        missing = f"{param}.content"
    elif message.role == "tool" and message.tool_call_id is None:
        missing = f"{param}.tool_call_id"
    elif message.role == "function":
        text = f"{param}: functions are called tools by now; use that role."
        raise ApiError(400, text, param=param, code="unsupported_parameter")
    if missing:
        raise ApiError(400, f"{missing} is missing.", param=missing, code="missing_value")


def _turn(message: Message) -> Turn:
    role = "system" if message.role == "developer" else message.role
    more: Turn = {
        "reasoning_content": message.reasoning_content or message.reasoning,
        "tool_calls": [_call(call) for call in message.tool_calls or ()] or None,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    present = {name: value for name, value in more.items() if value is not None}
    return {"role": role, "content": message.content or "", **present}


def _call(call: ToolCall) -> Turn:
    """Templates go through the arguments; those of a model that wrote no JSON stay a string."""
    arguments: Any = call.function.arguments
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    function = {"name": call.function.name, "arguments": arguments if parsed is None else parsed}
    return {"id": call.id, "type": "function", "function": function}


def _spelled_out(message: Message, markup: Markup) -> Turn:
    """A turn in words, for a template that knows nothing but roles and texts."""
    turn = _turn(message)
    calls = turn.pop("tool_calls", [])
    texts = [turn["content"]] if turn["content"] else []
    for call in calls:
        written = json.dumps(call["function"], ensure_ascii=False)
        texts.append(f"{markup.call_start}\n{written}\n{markup.call_end}")
    content = "\n".join(texts)
    if turn["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    return {"role": turn["role"], "content": content}


def _introduced(turns: list[Turn], markup: Markup, tools: Sequence[Turn]) -> list[Turn]:
    """The chat with its tools explained in the system turn."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    text = INTRODUCTION.format(tools=listed, start=markup.call_start, end=markup.call_end)
    first = turns[0]
    if first["role"] == "system":
        return [{**first, "content": f"{first['content']}\n\n{text}"}, *turns[1:]]
    return [{"role": "system", "content": text}, *turns]
