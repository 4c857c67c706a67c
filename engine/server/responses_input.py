"""A Responses request as the chat it stands for."""

from __future__ import annotations

from typing import Any

from engine.server.errors import ApiError
from engine.server.translate import as_chat
from engine.server.wire import ChatRequest, Message
from engine.server.wire_responses import (
    CallInput,
    CallOutput,
    FlatSchemaFormat,
    FlatTool,
    MessageInput,
    NamedFlatTool,
    ReasoningInput,
    ResponsesRequest,
)
from engine.server.wire_sampling import SamplingRequest
from engine.server.wire_tools import CalledFunction, ToolCall


def chat_of(body: ResponsesRequest) -> ChatRequest:
    """Raises ApiError for an input without a message."""
    messages = _messages(body)
    if not messages:
        raise ApiError(400, "input has no message.", param="input", code="missing_value")
    shared = body.model_dump(include=set(SamplingRequest.model_fields), exclude_unset=True)
    return as_chat(
        **shared | (body.model_extra or {}),
        messages=messages,
        max_completion_tokens=body.max_output_tokens,
        tools=[_tool(tool) for tool in body.tools or ()] or None,
        tool_choice=_choice(body),
        response_format=_format(body),
    )


def _messages(body: ResponsesRequest) -> list[Message]:
    chat = _Chat()
    if body.instructions:
        chat.messages.append(Message(role="system", content=body.instructions))
    for item in body.input:
        match item:
            case MessageInput(role="assistant"):
                chat.answer().content = item.content
            case MessageInput():
                chat.messages.append(Message(role=item.role, content=item.content))
            case CallInput():
                chat.call(item)
            case CallOutput():
                result = Message(role="tool", content=item.output, tool_call_id=item.call_id)
                chat.messages.append(result)
            case ReasoningInput():
                thoughts = "".join(part.text for part in item.content or ())
                chat.answer().reasoning_content = thoughts or None
    return chat.messages


class _Chat:
    """Messages as they gather: thoughts, text and calls of one answer are items apart here and one
    message there."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def answer(self) -> Message:
        """The assistant's message that has no text yet, a new one if there is none."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant" or last.content is not None:
            last = Message(role="assistant")
            self.messages.append(last)
        return last

    def call(self, item: CallInput) -> None:
        last = self.messages[-1] if self.messages else None
        message = last if last is not None and last.role == "assistant" else self.answer()
        function = CalledFunction(name=item.name, arguments=item.arguments)
        call = ToolCall(id=item.call_id, function=function)
        message.tool_calls = [*(message.tool_calls or ()), call]


def _tool(tool: FlatTool) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(exclude={"type"}, exclude_none=True)}


def _choice(body: ResponsesRequest) -> Any:
    match body.tool_choice:
        case NamedFlatTool(name=name):
            return {"type": "function", "function": {"name": name}}
        case choice:
            return choice


def _format(body: ResponsesRequest) -> Any:
    match body.text and body.text.format:
        case None:
            return None
        case FlatSchemaFormat(name=name, body=schema):
            return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
        case plain:
            return plain
