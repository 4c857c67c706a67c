"""Answers that have to be JSON: which form that is, and whether it can be kept."""

from __future__ import annotations

from typing import Any, Protocol

from engine.models.guide import FormError
from engine.models.markup import Markup
from engine.server.errors import ApiError
from engine.server.wire import ChatRequest
from engine.server.wire_tools import Function, JsonObjectFormat, JsonSchemaFormat, NamedTool
from engine.types import Form


class Guide(Protocol):
    """Turns schemas into grammars over a model's tokens."""

    def json(self, schema: dict[str, Any]) -> str: ...


class FormTokenizer(Protocol):
    """What a form needs of the model's tokenizer."""

    @property
    def markup(self) -> Markup: ...

    @property
    def guide(self) -> Guide: ...

    def encode(self, text: str, *, special: bool = True) -> list[int]: ...


def demands_call(body: ChatRequest) -> bool:
    """Must the answer be a tool call?"""
    return body.tool_choice == "required" or isinstance(body.tool_choice, NamedTool)


def form_of(body: ChatRequest, tokenizer: FormTokenizer, thinking: bool) -> Form | None:
    """The form the client asks for, None for free text. Raises ApiError for one nobody can keep.

    thinking: the prompt ends in the middle of thoughts; the form holds after them.
    """
    asked = _schema(body)
    if asked is None:
        return None
    param, schema = asked
    after = _end_of_thoughts(tokenizer, param) if thinking else None
    try:
        return Form(tokenizer.guide.json(schema), after)
    except FormError as error:
        message = f"{param}: no answer can be kept to this schema: {error}"
        raise ApiError(400, message, param=param, code="invalid_schema") from error


def _end_of_thoughts(tokenizer: FormTokenizer, param: str) -> int:
    match tokenizer.encode(tokenizer.markup.think_end, special=False):
        case [token]:
            return token
    message = f"{param}: this model's thoughts don't end in one token, so no form can follow."
    raise ApiError(400, message, param=param, code="unsupported_parameter")


def _schema(body: ChatRequest) -> tuple[str, dict[str, Any]] | None:
    """The parameter that asks for a form and its JSON schema."""
    if demands_call(body):
        return "tool_choice", _call_schema(body)
    match body.response_format:
        case JsonSchemaFormat(json_schema=schema):
            found = schema.body
        case JsonObjectFormat():
            found = {"type": "object"}
        case _:
            return None
    if body.tools and body.tool_choice != "none":
        raise ApiError(
            400,
            "An answer can't be kept to a response_format and call tools too; "
            'leave one out, or set tool_choice to "none".',
            param="response_format",
            code="unsupported_parameter",
        )
    return "response_format", found


def _call_schema(body: ChatRequest) -> dict[str, Any]:
    """One call of the tool the client names, or of any."""
    functions = [tool.function for tool in body.tools or []]
    if isinstance(body.tool_choice, NamedTool):
        name = body.tool_choice.function.name
        functions = [function for function in functions if function.name == name]
    if not functions:
        message = "tool_choice asks for a tool that is not among the tools."
        raise ApiError(400, message, param="tool_choice", code="invalid_value")
    return {"anyOf": [_call_of(function) for function in functions]}


def _call_of(function: Function) -> dict[str, Any]:
    parameters = function.parameters or {"type": "object"}
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
