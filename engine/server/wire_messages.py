"""Anthropic's Messages protocol: what clients send, what they get back, and the stream's events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from engine.server.mended import Asked
from engine.server.sparse import Sparse
from engine.server.wire import join_parts
from engine.server.wire_sampling import MAX_STOPS

Text = Annotated[str, BeforeValidator(join_parts)]


class TextBlock(BaseModel):
    type: Literal["text"] = "text"
    text: str


class ThinkingBlock(BaseModel):
    """signature: proves a hosted model's thoughts genuine; there is nothing to prove here."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = ""


class RedactedBlock(BaseModel):
    type: Literal["redacted_thinking"]


class ToolUseBlock(BaseModel):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(BaseModel):
    type: Literal["tool_result"]
    tool_use_id: str
    content: Text | None = None


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class Turn(BaseModel):
    role: Literal["user", "assistant", "system"]
    content: Annotated[list[Block], BeforeValidator(_as_blocks)]


class CustomTool(BaseModel):
    """A tool of the client's own; a hosted service's tools exist only there."""

    type: Literal["custom"] | None = None
    name: str = Field(min_length=1, max_length=256)
    description: str | None = None
    input_schema: dict[str, Any]


class Choice(BaseModel):
    type: Literal["auto", "any", "none"]


class NamedChoice(BaseModel):
    type: Literal["tool"]
    name: str


class Thinking(BaseModel):
    """Passed to templates that can switch thoughts on and off; their length is the model's."""

    type: Literal["enabled", "disabled", "adaptive"]


class SchemaFormat(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    type: Literal["json_schema"]
    body: dict[str, Any] = Field(alias="schema")


class OutputConfig(BaseModel):
    format: SchemaFormat | None = None


class CountRequest(Asked):
    """`POST /v1/messages/count_tokens`. An assistant's turn at the end is continued."""

    model: str | None = None
    messages: list[Turn] = Field(min_length=1)
    system: Text | None = None
    tools: list[CustomTool] | None = None
    tool_choice: Annotated[Choice | NamedChoice, Field(discriminator="type")] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None


class MessagesRequest(CountRequest):
    """`POST /v1/messages`."""

    max_tokens: int = Field(ge=1)
    stream: bool | None = None
    stop_sequences: list[str] | None = Field(None, max_length=MAX_STOPS)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1)


class TokenCount(BaseModel):
    input_tokens: int


class MessageUsage(BaseModel):
    """input_tokens: those that had to be read, without cache_read_input_tokens."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]
OutputBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessageBody(BaseModel):
    """A message, whole or just begun."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[OutputBlock] = []
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: MessageUsage


class BlockDelta(Sparse):
    type: Literal["text_delta", "thinking_delta", "signature_delta", "input_json_delta"]
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None


class StopDelta(BaseModel):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageEvent(Sparse):
    """Any event of a stream; each type has its own few fields."""

    type: str
    message: MessageBody | None = None
    index: int | None = None
    content_block: OutputBlock | None = None
    delta: BlockDelta | StopDelta | None = None
    usage: MessageUsage | None = None
