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
    entries = []
    for each in scored:
        picked = _named(each.picked, speller)
        top = [_named(other, speller) for other in each.top]
        entries.append(TokenLogprobs(**dict(picked), top_logprobs=top))
    return ChoiceLogprobs(content=entries)


def _named(token: TokenLogprob, speller: Speller) -> Alternative:
    text, raw = speller.spell(token.token)
    logprob = max(token.logprob, LOWEST)
    return Alternative(token=text, logprob=logprob, bytes=None if raw is None else list(raw))
