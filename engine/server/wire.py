"""The OpenAI chat protocol: what clients send and what they get back."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from engine.server.sparse import Sparse
from engine.server.wire_counts import TimingsBody, UsageBody
from engine.server.wire_sampling import MAX_ALTERNATIVES, SamplingRequest
from engine.server.wire_tools import ResponseFormat, Tool, ToolCall, ToolCallDelta, ToolChoice


def join_parts(content: Any) -> Any:
    """Content as one string; null stays null and a list is its text parts, joined."""
    if not isinstance(content, list):
        return content
    return "".join(_part_text(part) for part in content)


def _part_text(part: Any) -> str:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return text
        case {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind)} if kind not in ("text", "input_text", "output_text", "refusal"):
            raise PydanticCustomError(
                "content_part", "Only text can be read here, not {kind}", {"kind": ascii(kind[:40])}
            )
        case _:
            raise PydanticCustomError("content_part", "Each part needs a type and a text")


class Message(BaseModel):
    """One turn. reasoning_content, or reasoning: thoughts of an earlier answer, for templates that
    want them."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[str | None, BeforeValidator(join_parts)] = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class ChatRequest(SamplingRequest):
    """`POST /v1/chat/completions`.

    continue_final_message: the last message is the beginning of the answer. tool_choice:
    "required" and a name ask for one call and nothing else. chat_template_kwargs: variables of the
    model's template, such as enable_thinking.
    """

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_ALTERNATIVES)
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None


class Alternative(BaseModel):
    """A token at some place. bytes: null for a special token. token: its text, with a replacement
    character for what is only a part of one."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprobs(Alternative):
    """The sampled token and the likeliest ones at its place, likeliest first."""

    top_logprobs: list[Alternative]


class ChoiceLogprobs(BaseModel):
    """One entry a token, by the model's distribution after logit_bias and penalties, before
    temperature and filters."""

    content: list[TokenLogprobs]


class ChunkDelta(Sparse):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChunkChoice(BaseModel):
    index: int = 0
    delta: ChunkDelta
    logprobs: ChoiceLogprobs | None = None
    finish_reason: str | None = None


class ChatChunk(Sparse):
    """One frame of a streamed answer. usage and timings: only in the last, which has no choices."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: UsageBody | None = None
    timings: TimingsBody | None = None


class AnswerMessage(Sparse):
    """content: null where there are only calls. reasoning_content: the model's thoughts."""

    always: ClassVar[frozenset[str]] = frozenset({"content"})

    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(BaseModel):
    index: int = 0
    message: AnswerMessage
    logprobs: ChoiceLogprobs | None = None
    finish_reason: str


class ChatCompletion(BaseModel):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: UsageBody
    timings: TimingsBody


class ModelCard(BaseModel):
    """One entry of `GET /v1/models`. context_length: tokens, once the model is loaded."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "local"
    context_length: int | None = None


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]
