"""OpenAI's Responses protocol: what clients send, what they get back, and the stream's events."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from engine.server.sparse import Sparse
from engine.server.wire import join_parts
from engine.server.wire_sampling import SamplingRequest
from engine.server.wire_tools import JsonObjectFormat, TextFormat

Text = Annotated[str, BeforeValidator(join_parts)]


class MessageInput(BaseModel):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Text


class CallInput(BaseModel):
    """A call the model made earlier."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class CallOutput(BaseModel):
    """What came of a call."""

    type: Literal["function_call_output"]
    call_id: str
    output: Text


class ThoughtPart(BaseModel):
    type: str
    text: str


class ReasoningInput(BaseModel):
    """Thoughts of an earlier answer; those that are encrypted or only summed up are not read."""

    type: Literal["reasoning"]
    content: list[ThoughtPart] | None = None


def _kind(item: Any) -> Any:
    """A message need not say that it is one."""
    return item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", None)


InputItem = Annotated[
    Annotated[MessageInput, Tag("message")]
    | Annotated[CallInput, Tag("function_call")]
    | Annotated[CallOutput, Tag("function_call_output")]
    | Annotated[ReasoningInput, Tag("reasoning")],
    Discriminator(_kind),
]


def _as_items(items: Any) -> Any:
    """A plain text is what the user says."""
    return [{"role": "user", "content": items}] if isinstance(items, str) else items


class FlatTool(BaseModel):
    """A function, its fields not nested as in chat completions."""

    model_config = ConfigDict(extra="allow")

    type: Literal["function"]
    name: str = Field(min_length=1, max_length=256)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class NamedFlatTool(BaseModel):
    type: Literal["function"]
    name: str


class FlatSchemaFormat(BaseModel):
    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    type: Literal["json_schema"]
    name: str | None = None
    body: dict[str, Any] = Field(alias="schema")


class TextOptions(BaseModel):
    format: (
        Annotated[TextFormat | JsonObjectFormat | FlatSchemaFormat, Field(discriminator="type")]
        | None
    ) = None


class ResponsesRequest(SamplingRequest):
    """`POST /v1/responses`. Nothing is stored, whatever `store` says: send the whole input."""

    input: Annotated[list[InputItem], BeforeValidator(_as_items), Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[FlatTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFlatTool | None = None
    text: TextOptions | None = None
    metadata: dict[str, Any] | None = None
    previous_response_id: None = None
    conversation: None = None
    prompt: None = None
    background: Literal[False] | None = None


def _id(prefix: str) -> Any:
    return Field(default_factory=lambda: f"{prefix}_{secrets.token_hex(12)}")


Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ReasoningText(BaseModel):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str = ""


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str = ""
    annotations: list[Any] = []


class ReasoningItem(BaseModel):
    id: str = _id("rs")
    type: Literal["reasoning"] = "reasoning"
    status: Status = "in_progress"
    summary: list[Any] = []
    content: list[ReasoningText] = []


class MessageItem(BaseModel):
    id: str = _id("msg")
    type: Literal["message"] = "message"
    status: Status = "in_progress"
    role: Literal["assistant"] = "assistant"
    content: list[OutputText] = []


class CallItem(BaseModel):
    id: str = _id("fc")
    type: Literal["function_call"] = "function_call"
    status: Status = "in_progress"
    call_id: str
    name: str
    arguments: str = ""


OutputItem = ReasoningItem | MessageItem | CallItem


class InputDetails(BaseModel):
    cached_tokens: int


class OutputDetails(BaseModel):
    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """reasoning_tokens: of the thoughts' text, by the model's tokenizer."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(BaseModel):
    code: str
    message: str


class IncompleteDetails(BaseModel):
    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseBody(BaseModel):
    """A response, whole or under way, with the request's options as they were understood."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status = "in_progress"
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, Any] = {}
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    previous_response_id: None = None
    store: Literal[False] = False
    temperature: float | None = None
    text: TextOptions
    tool_choice: str | NamedFlatTool
    tools: list[FlatTool] = []
    top_p: float | None = None
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None


class ResponseEvent(Sparse):
    """Any event of a stream; each type has its own few fields. sequence_number: from 0."""

    type: str
    sequence_number: int
    response: ResponseBody | None = None
    output_index: int | None = None
    content_index: int | None = None
    item_id: str | None = None
    item: OutputItem | None = None
    part: OutputText | None = None
    delta: str | None = None
    text: str | None = None
    arguments: str | None = None
    name: str | None = None
