"""What a request asks for and what it gets back. Plain Python values: safe to pass between threads.

No MLX in here; the server, the tests and the workbench's own code may all import it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from engine.speculate import Speculate


class FinishReason(StrEnum):
    """Why a request ended. STOP and LENGTH are OpenAI's; the others end a stream early."""

    STOP = "stop"  # end-of-turn token or a stop string
    LENGTH = "length"  # max_tokens or the context is used up
    CANCELLED = "cancelled"  # by the client, a disconnect or the panel
    ERROR = "error"  # this request failed; `Finish.error` says why


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one row picks its tokens. A token is a pure function of (logits, these, seed, position,
    the row's own history).

    temperature: 0 is greedy. top_p in (0, 1], 1 keeps all. top_k 0 keeps all. min_p in [0, 1],
    0 keeps all. xtc_probability: how often the likeliest tokens are left out, all of those above
    xtc_threshold, in (0, 0.5], but the last. seed: any 64-bit integer; the server draws one when
    the client gives none. logit_bias: token id -> added to that token's logit, before temperature.
    repetition_penalty: divides (where negative, multiplies) the logits of the tokens among the last
    repetition_context ones, prompt included; 1 does nothing. presence_penalty, frequency_penalty:
    taken off the logits of generated tokens, once and for every time they came.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    seed: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    repetition_penalty: float = 1.0
    repetition_context: int = 20
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer has to look like. grammar: llguidance's. after: the token from which on it
    holds, None for the whole answer."""

    grammar: str
    after: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One row's worth of work.

    id: unique, e.g. "chatcmpl-…". prompt: token ids, at least one. max_tokens: already clamped to
    the context; 0 where only the prompt matters. stop: strings that end the answer and are not part
    of it. min_tokens: before so many, end-of-turn tokens don't end it. logprobs: alternatives to
    report with each token's log-probability, None for neither. prompt_logprobs: the same for the
    prompt's tokens, which are all run through the model then. form: what the answer is kept to;
    where nothing can follow any more, it ends. source: the label the live panel shows
    (`X-Dspark-Source`).
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    form: Form | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. completion_tokens counts every sampled token, the end-of-turn one included."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds on the engine's clock, each measured from the request's submission."""

    admitted: float | None
    first_token: float | None
    finished: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token id and the natural logarithm of its probability; minus infinity if forbidden."""

    token: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Scored:
    """A sampled token and the likeliest tokens at its place, likeliest first. By the model's
    distribution after bias and penalties, before temperature and filters."""

    picked: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPrompt:
    """Once, before any text, if the request asked. scored: of the prompt's tokens but the first,
    which follows nothing."""

    scored: tuple[Scored, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a running request; never splits a character, never part of a stop string.

    tokens: sampled since the previous update. scored: of the tokens that begin in this text, if
    the request asked.
    """

    text: str
    tokens: int
    scored: tuple[Scored, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """The last update of a request, exactly once. `error` is set only when reason is ERROR. stop:
    the stop string that ended it, if one did. end: the end-of-turn token that did, if the request
    asked for log-probabilities."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    error: str | None = None
    stop: str | None = None
    end: Scored | None = None


@dataclass(frozen=True, slots=True)
class KvUse:
    """What running requests hold. tokens: in all rows together. share: of the memory for K/V, 0 to
    1, with the room that rows of unequal length cost."""

    tokens: int = 0
    share: float = 0.0


Update = ScoredPrompt | Delta | Finish
Sink = Callable[[Update], None]
"""Receives a request's updates on the engine thread: must return at once and never raise."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """max_batch: slots. queue_limit: requests that may wait. kv_budget: bytes for K/V, None for
    half of the memory that is free once the model is loaded. prefix_cache: bytes of them for ended
    requests, None for an eighth, 0 for none. stuck_after: seconds after which work that has not
    ended is reported, 0 for never. drafter: folder or hub id, None for the one that is known.
    drafter_bits: to quantize it, None as it is stored. max_draft: tokens of a draft, None for as
    many as pay. confidence: a drafter that knows how likely its tokens are right ends a draft
    before the first one less likely."""

    max_batch: int = 8
    queue_limit: int = 256
    kv_budget: int | None = None
    speculate: Speculate = Speculate.OFF
    drafter: str | None = None
    drafter_bits: int | None = None
    max_draft: int | None = None
    confidence: float = 0.0
    prefix_cache: int | None = None
    stuck_after: float = 120.0


class EngineError(Exception):
    """Base of everything `Engine.submit` refuses. `str()` is one line for the person who asked."""


class QueueFullError(EngineError):
    """The queue is at its limit. retry_after: seconds until a slot is likely free."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ContextLengthError(EngineError):
    """The prompt leaves no room in the model's context, or its KV could never fit in memory."""


class EngineUnavailableError(EngineError):
    """Loading, failed or stopped: no request can run now."""
