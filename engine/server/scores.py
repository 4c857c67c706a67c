"""Log-probabilities in the protocol's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.server.wire import Alternative, ChoiceLogprobs, TokenLogprobs
from engine.server.wire_completions import CompletionLogprobs
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


def legacy_logprobs(scored: Sequence[Scored], offset: int, speller: Speller) -> CompletionLogprobs:
    """The same for raw completions. offset: where in the text the first token begins; pieces of one
    character share its place."""
    body = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
    raw = b""
    for each in scored:
        picked = _named(each.picked, speller)
        top = [_named(other, speller) for other in each.top]
        body.tokens.append(picked.token)
        body.token_logprobs.append(picked.logprob)
        body.top_logprobs.append({other.token: other.logprob for other in top})
        body.text_offset.append(offset + len(raw.decode("utf-8", "ignore")))
        raw += bytes(picked.bytes or ())
    return body


def joined(pieces: Sequence[CompletionLogprobs]) -> CompletionLogprobs:
    """Pieces of an answer as one."""
    return CompletionLogprobs(
        tokens=[token for piece in pieces for token in piece.tokens],
        token_logprobs=[logprob for piece in pieces for logprob in piece.token_logprobs],
        top_logprobs=[top for piece in pieces for top in piece.top_logprobs],
        text_offset=[offset for piece in pieces for offset in piece.text_offset],
    )


def _named(token: TokenLogprob, speller: Speller) -> Alternative:
    text, raw = speller.spell(token.token)
    logprob = max(token.logprob, LOWEST)
    return Alternative(token=text, logprob=logprob, bytes=None if raw is None else list(raw))
