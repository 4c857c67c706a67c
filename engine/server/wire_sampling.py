"""What every request for text may say about how it is written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from engine.server.mended import Asked

MAX_STOPS = 32
MAX_BIASES = 300
MAX_CHOICES = 128
MAX_ALTERNATIVES = 20


def _as_stops(stop: Any) -> Any:
    """Stop strings as a list: one string or null are welcome, empty strings mean nothing."""
    stops = [stop] if isinstance(stop, str) else stop or []
    return [text for text in stops if text != ""] if isinstance(stops, list) else stop


class StreamOptions(BaseModel, strict=True):
    include_usage: bool | None = None


class SamplingRequest(Asked):
    """Null is the same as absent; unknown fields are accepted.

    model: any name; the one loaded model answers, and the response says which it is. n: answers,
    each from a seed of its own (seed, seed + 1, …). repetition_penalty and repetition_context_size:
    as in mlx-lm. presence_penalty, frequency_penalty: over generated tokens, as in OpenAI's.
    """

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
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
    seed: int | None = None
    stop: Annotated[list[str], BeforeValidator(_as_stops)] = Field([], max_length=MAX_STOPS)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        None, max_length=MAX_BIASES
    )

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)
