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


def legacy_logprobs(
    tokens: Sequence[int],
    scored: Sequence[Scored | None],
    text: str,
    offset: int,
    speller: Speller,
) -> CompletionLogprobs:
    """The same for raw completions. scored: for each token, None for a prompt's first. text: what
    the tokens say, `offset` characters behind the whole text's beginning."""
    body = CompletionLogprobs()
    for token, each in zip(tokens, scored, strict=True):
        body.tokens.append(_spelled(token, speller))
        body.token_logprobs.append(None if each is None else max(each.picked.logprob, LOWEST))
        body.top_logprobs.append(None if each is None else _likeliest(each, speller))
    body.text_offset = [offset + place for place in _places(tokens, text, speller)]
    return body


def joined(pieces: Sequence[CompletionLogprobs]) -> CompletionLogprobs:
    """Pieces of an answer as one."""
    return CompletionLogprobs(
        tokens=[token for piece in pieces for token in piece.tokens],
        token_logprobs=[logprob for piece in pieces for logprob in piece.token_logprobs],
        top_logprobs=[top for piece in pieces for top in piece.top_logprobs],
        text_offset=[offset for piece in pieces for offset in piece.text_offset],
    )


def _likeliest(scored: Scored, speller: Speller) -> dict[str, float]:
    """The alternatives by name, likeliest first, and the token itself."""
    named: dict[str, float] = {}
    for each in (*scored.top, scored.picked):
        named.setdefault(_spelled(each.token, speller), max(each.logprob, LOWEST))
    return named


def _spelled(token: int, speller: Speller) -> str:
    """A token's text, or its bytes where they are no whole characters; as OpenAI names those."""
    text, raw = speller.spell(token)
    if raw is None or raw == text.encode():
        return text
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _places(tokens: Sequence[int], text: str, speller: Speller) -> list[int]:
    """The character of the text in which each token begins. What is not in the text takes no place:
    a beginning that the tokenizer adds, a word's space at the text's edge."""
    character_of = [place for place, character in enumerate(text) for _ in character.encode()]
    character_of.append(len(text))
    raw, at, places = text.encode(), 0, []
    for token in tokens:
        places.append(character_of[at])
        name, own = speller.spell(token)
        piece = name.encode() if own is None else own
        if not raw.startswith(piece, at):
            piece = piece.removeprefix(b" ")
        at += len(piece) if raw.startswith(piece, at) else 0
    return places


def _named(token: TokenLogprob, speller: Speller) -> Alternative:
    text, raw = speller.spell(token.token)
    logprob = max(token.logprob, LOWEST)
    return Alternative(token=text, logprob=logprob, bytes=None if raw is None else list(raw))
