"""The older OpenAI protocol: a raw prompt and the text that follows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from engine.server.sparse import Sparse
from engine.server.wire_counts import TimingsBody, UsageBody
from engine.server.wire_sampling import MAX_ALTERNATIVES, SamplingRequest

MAX_PROMPTS = 128

TokenIds = list[Annotated[int, Field(ge=0)]]


def _as_prompts(prompt: Any) -> Any:
    """A list of prompts, from all four shapes there are."""
    is_one = isinstance(prompt, str) or (
        isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt)
    )
    return [prompt] if is_one else prompt


class CompletionRequest(SamplingRequest):
    """`POST /v1/completions`.

    prompt: a text, token ids, or a list of either; each is a row of the batch. max_tokens: 16 where
    none are given, as everywhere; 0 is for the prompt alone. echo: the prompt comes first in the
    text. logprobs: alternatives for each token, those of an echoed prompt too.
    """

    prompt: Annotated[
        list[str | TokenIds],
        BeforeValidator(_as_prompts),
        Field(min_length=1, max_length=MAX_PROMPTS),
    ]
    max_tokens: int | None = Field(None, ge=0)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MAX_ALTERNATIVES)
    best_of: int | None = None


class CompletionLogprobs(BaseModel):
    """Parallel lists, one entry a token, the end of turn included. Null for a prompt's first, which
    follows nothing. top_logprobs: the token itself is always among them. text_offset: characters
    from the text's beginning."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    text_offset: list[int] = []


class CompletionChoice(BaseModel):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None


class Completion(Sparse):
    """A whole answer, or one frame of a streamed one: then usage is in the last alone."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: UsageBody | None = None
    timings: TimingsBody | None = None
