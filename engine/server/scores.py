"""Log-probabilities in the protocol's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.server.wire import Alternative, ChoiceLogprobs, TokenLogprobs
from engine.types import Scored, TokenLogprob

LOWEST = -9999.0
"""Stands for minus infinity, which JSON can't say."""


class Speller(Protocol):
    """What naming a token needs of the model's tokenizer."""

    def spell(self, token: int) -> tuple[str, bytes | None]: ...


def logprobs_body(scored: Sequence[Scored], speller: Speller) -> ChoiceLogprobs:
    """One entry a token, in the order they were sampled."""
    return ChoiceLogprobs(
        content=[
            TokenLogprobs(
                **_spelled(each.picked, speller),
                top_logprobs=[Alternative(**_spelled(other, speller)) for other in each.top],
            )
            for each in scored
        ]
    )


def _spelled(token: TokenLogprob, speller: Speller) -> dict[str, str | float | list[int] | None]:
    text, raw = speller.spell(token.token)
    logprob = max(token.logprob, LOWEST)
    return {"token": text, "logprob": logprob, "bytes": None if raw is None else list(raw)}
