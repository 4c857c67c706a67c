"""Tools a model may call, its calls, and formats its answer may have to take."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from engine.server.sparse import Sparse


def _as_json(arguments: Any) -> Any:
    """Arguments are a string that holds JSON; some clients send the object itself."""
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments


class Function(BaseModel):
    """parameters: a JSON schema; None for a function that takes nothing in particular."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, max_length=256)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    type: Literal["function"] = "function"
    function: Function


class FunctionName(BaseModel):
    name: str


class NamedTool(BaseModel):
    """The one tool that has to be called."""

    type: Literal["function"] = "function"
    function: FunctionName


ToolChoice = Literal["none", "auto", "required"] | NamedTool


class CalledFunction(BaseModel):
    """arguments: JSON as a string; nobody promises that it can be parsed."""

    name: str
    arguments: Annotated[str, BeforeValidator(_as_json)] = "{}"


class ToolCall(BaseModel):
    """A call in an answer, or in an earlier turn of the chat."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction


class FunctionDelta(Sparse):
    name: str | None = None
    arguments: str


class ToolCallDelta(Sparse):
    """A piece of a call: the first says id and name, later ones add to the arguments."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta


class TextFormat(BaseModel):
    type: Literal["text"]


class JsonObjectFormat(BaseModel):
    type: Literal["json_object"]


class JsonSchema(BaseModel, strict=True):
    model_config = ConfigDict(populate_by_name=True)

    name: str | None = None
    strict: bool | None = None
    body: dict[str, Any] = Field(alias="schema")


class JsonSchemaFormat(BaseModel):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]
