"""The OpenAI chat protocol: what clients send and what they get back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from engine.types import Timings, Usage

MAX_STOPS = 32
MAX_BIASES = 300
MAX_CHOICES = 128
MAX_ALTERNATIVES = 20


def _join_parts(content: Any) -> Any:
    """Content as one string; null stays null and a list is its text parts, joined."""
    if not isinstance(content, list):
        return content
    return "".join(_part_text(part) for part in content)


def _part_text(part: Any) -> str:
    match part:
        case {"type": "text" | "input_text", "text": str(text)}:
            return text
        case {"type": str(kind)} if kind not in ("text", "input_text"):
            raise PydanticCustomError(
                "content_part", "Only text can be read here, not {kind}", {"kind": ascii(kind[:40])}
            )
        case _:
            raise PydanticCustomError("content_part", "Each part needs a type and a text")


def _as_stops(stop: Any) -> Any:
    """Stop strings as a list: one string or null are welcome, empty strings mean nothing."""
    stops = [stop] if isinstance(stop, str) else stop or []
    return [text for text in stops if text != ""] if isinstance(stops, list) else stop


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[str | None, BeforeValidator(_join_parts)] = None
    tool_calls: list[Any] | None = None


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """`POST /v1/chat/completions`. Null is the same as absent; unknown fields are accepted.

    model: any name; the one loaded model answers, and the response says which it is. n: answers,
    each from a seed of its own (seed, seed + 1, …). repetition_penalty and repetition_context_size:
    as in mlx-lm. presence_penalty, frequency_penalty: over generated tokens, as in OpenAI's.
    """

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    messages: list[Message] = Field(min_length=1)
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    min_tokens: int | None = Field(None, ge=0)
    ignore_eos: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    min_p: float | None = Field(None, ge=0, le=1)
    xtc_probability: float | None = Field(None, ge=0, le=1)
    xtc_threshold: float | None = Field(None, gt=0, le=0.5)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    repetition_context_size: int | None = Field(None, ge=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_ALTERNATIVES)
    seed: int | None = None
    stop: Annotated[list[str], BeforeValidator(_as_stops)] = Field([], max_length=MAX_STOPS)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        None, max_length=MAX_BIASES
    )
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class _Sparse(BaseModel):
    """Leaves out what is None, where clients expect a missing key rather than null."""

    @model_serializer(mode="wrap")
    def _without_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class PromptTokensDetails(BaseModel):
    cached_tokens: int


class UsageBody(BaseModel):
    """Tokens spent; completion_tokens includes the end-of-turn token."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails

    @classmethod
    def of(cls, choices: Sequence[Usage]) -> UsageBody:
        """Of an answer's choices, which share one prompt: it counts once."""
        first, completion = choices[0], sum(usage.completion_tokens for usage in choices)
        return cls(
            prompt_tokens=first.prompt_tokens,
            completion_tokens=completion,
            total_tokens=first.prompt_tokens + completion,
            prompt_tokens_details=PromptTokensDetails(
                cached_tokens=min(usage.cached_tokens for usage in choices)
            ),
        )


class TimingsBody(BaseModel):
    """Milliseconds since the request reached the engine. queued_ms: until it got a slot."""

    queued_ms: float | None
    first_token_ms: float | None
    total_ms: float

    @classmethod
    def of(cls, choices: Sequence[Timings]) -> TimingsBody:
        """Of an answer's choices: the first that began, the last that ended."""
        return cls(
            queued_ms=_earliest(timings.admitted for timings in choices),
            first_token_ms=_earliest(timings.first_token for timings in choices),
            total_ms=_milliseconds(max(timings.finished for timings in choices)),
        )


def _earliest(times: Iterable[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return _milliseconds(min(known)) if known else None


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


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


class ChunkDelta(_Sparse):
    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(BaseModel):
    index: int = 0
    delta: ChunkDelta
    logprobs: ChoiceLogprobs | None = None
    finish_reason: str | None = None


class ChatChunk(_Sparse):
    """One frame of a streamed answer. usage and timings: only in the last, which has no choices."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: UsageBody | None = None
    timings: TimingsBody | None = None


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str


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
