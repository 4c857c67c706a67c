"""What an answer took, in tokens and in time, as clients read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from engine.types import Timings, Usage


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
        return cls.of_prompts([choices])

    @classmethod
    def of_prompts(cls, prompts: Sequence[Sequence[Usage]]) -> UsageBody:
        """Of several prompts' choices; each prompt counts once."""
        prompt = sum(choices[0].prompt_tokens for choices in prompts)
        completion = sum(usage.completion_tokens for choices in prompts for usage in choices)
        cached = sum(min(usage.cached_tokens for usage in choices) for choices in prompts)
        return cls(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=cached),
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
