"""An Anthropic request as the chat it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engine.server.translate import as_chat
from engine.server.wire import ChatRequest, Message
from engine.server.wire_messages import (
    CountRequest,
    CustomTool,
    MessagesRequest,
    NamedChoice,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
)
from engine.server.wire_tools import CalledFunction, Function, Tool, ToolCall

CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_of(body: CountRequest) -> ChatRequest:
    """Raises ApiError for a chat nobody can answer."""
    system = [Message(role="system", content=body.system)] if body.system else []
    messages = [message for turn in body.messages for message in _messages(turn)]
    continues = bool(messages) and messages[-1].role == "assistant" and bool(messages[-1].content)
    fields = {
        "messages": [*system, *messages],
        "tools": [_tool(tool) for tool in body.tools or ()] or None,
        "tool_choice": _choice(body),
        "response_format": _format(body),
        "chat_template_kwargs": _thinking(body),
        "continue_final_message": continues or None,
    }
    return as_chat(**fields, **(_sampling(body) if isinstance(body, MessagesRequest) else {}))


def _sampling(body: MessagesRequest) -> dict[str, Any]:
    extra = {name: value for name, value in (body.model_extra or {}).items() if name == "seed"}
    return extra | {
        "max_tokens": body.max_tokens,
        "stop": body.stop_sequences,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": body.top_k,
        "stream": body.stream,
    }


def _messages(turn: Turn) -> Iterator[Message]:
    """Results of tools come first: they answer the turn before."""
    for block in turn.content:
        if isinstance(block, ToolResultBlock):
            yield Message(role="tool", content=block.content or "", tool_call_id=block.tool_use_id)
    texts = [block.text for block in turn.content if isinstance(block, TextBlock)]
    calls = [_call(block) for block in turn.content if isinstance(block, ToolUseBlock)]
    thoughts = [block.thinking for block in turn.content if isinstance(block, ThinkingBlock)]
    if texts or calls or thoughts:
        yield Message(
            role=turn.role,
            content="".join(texts) if texts else None,
            reasoning_content="".join(thoughts) or None,
            tool_calls=calls or None,
        )


def _call(block: ToolUseBlock) -> ToolCall:
    arguments = json.dumps(block.input, ensure_ascii=False)
    return ToolCall(id=block.id, function=CalledFunction(name=block.name, arguments=arguments))


def _tool(tool: CustomTool) -> Tool:
    return Tool(
        function=Function(
            name=tool.name, description=tool.description, parameters=tool.input_schema
        )
    )


def _choice(body: CountRequest) -> Any:
    match body.tool_choice:
        case None:
            return None
        case NamedChoice(name=name):
            return {"type": "function", "function": {"name": name}}
        case choice:
            return CHOICES[choice.type]


def _format(body: CountRequest) -> Any:
    if body.output_config is None or body.output_config.format is None:
        return None
    return {"type": "json_schema", "json_schema": {"schema": body.output_config.format.body}}


def _thinking(body: CountRequest) -> dict[str, bool] | None:
    if body.thinking is None:
        return None
    return {"enable_thinking": body.thinking.type != "disabled"}
