"""Penalties on tokens a row has seen, for all rows at once.

A row's newest token may still be on its way when its next one is picked. So the history before it
comes from the host and the newest from the device, and a step never waits for the one before it.
Everything is gathered, changed and put back by token id: no row needs a count for every word of
the vocabulary, and nothing is kept between steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import mlx.core as mx

from engine.pick import Pick

_PADDING = -1


def penalised(logits: mx.array, picks: Sequence[Pick], newest: mx.array) -> mx.array:
    """Logits [rows, vocabulary] after each row's penalties, lazy.

    newest: [rows], the token each row's logits come from. repetition_penalty is mlx-lm's: over the
    last tokens, prompt included. presence_penalty and frequency_penalty are OpenAI's: over the
    generated tokens. A row without penalties comes out as it went in, bit for bit.
    """
    newest = newest.astype(mx.int32)[:, None]
    if any(pick.params.repetition_penalty != 1 for pick in picks):
        logits = _scaled(logits, picks, newest)
    if any(_counts(pick) for pick in picks):
        logits = _lowered(logits, picks, newest)
    return logits


def _scaled(logits: mx.array, picks: Sequence[Pick], newest: mx.array) -> mx.array:
    windows = [
        pick.recent(pick.params.repetition_context - 1)
        if pick.params.repetition_penalty != 1
        else []
        for pick in picks
    ]
    ids = _with_newest(windows, newest)
    penalty = mx.array([pick.params.repetition_penalty for pick in picks])[:, None]
    seen = mx.take_along_axis(logits, ids, axis=-1).astype(mx.float32)
    scaled = mx.where(seen < 0, seen * penalty, seen / penalty)
    return mx.put_along_axis(logits, ids, scaled.astype(logits.dtype), axis=-1)


def _lowered(logits: mx.array, picks: Sequence[Pick], newest: mx.array) -> mx.array:
    known = [Counter(pick.generated) if _counts(pick) else Counter[int]() for pick in picks]
    ids = _with_newest([list(counter) for counter in known], newest)
    counts = mx.array(_padded([[*counter.values(), 0] for counter in known], 0))
    is_newest = ids == newest
    answers = mx.array([[int(pick.answers)] for pick in picks])
    of_newest = mx.sum(counts * is_newest, axis=-1, keepdims=True) + answers
    counts = mx.where(is_newest, of_newest, counts)
    frequency = mx.array([pick.params.frequency_penalty for pick in picks])[:, None]
    presence = mx.array([pick.params.presence_penalty for pick in picks])[:, None]
    seen = mx.take_along_axis(logits, ids, axis=-1).astype(mx.float32)
    lowered = seen - frequency * counts - presence * (counts > 0)
    return mx.put_along_axis(logits, ids, lowered.astype(logits.dtype), axis=-1)


def _counts(pick: Pick) -> bool:
    return pick.params.presence_penalty != 0 or pick.params.frequency_penalty != 0


def _with_newest(ids: list[list[int]], newest: mx.array) -> mx.array:
    """int32 [rows, longest + 1]: each row's ids, filled up with its newest token. Ids may repeat:
    every copy gets the same value."""
    known = mx.array(_padded([[*row, _PADDING] for row in ids], _PADDING), dtype=mx.int32)
    return mx.where(known == _PADDING, newest, known)


def _padded(rows: list[list[int]], filler: int) -> list[list[int]]:
    width = max(map(len, rows))
    return [row + [filler] * (width - len(row)) for row in rows]
