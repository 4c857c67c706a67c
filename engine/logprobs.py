"""Log-probabilities of the tokens one step picked, for the rows that asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.types import Scored, TokenLogprob


@dataclass(frozen=True, slots=True)
class Scores:
    """Lazy until read. widths: alternatives by row, None where nothing was asked for.

    The other arrays have one row for each that asked. ids, best: the likeliest tokens and their
    log-probabilities, likeliest first, as many as the row that wants most.
    """

    widths: Sequence[int | None]
    picked: mx.array
    ids: mx.array
    best: mx.array

    @classmethod
    def of(cls, logits: mx.array, tokens: mx.array, widths: Sequence[int | None]) -> Scores | None:
        """From the logits [rows, vocabulary] the tokens were picked from, after bias and penalties
        and before temperature and filters. None when no row asked."""
        asking = [row for row, width in enumerate(widths) if width is not None]
        if not asking:
            return None
        if len(asking) < len(widths):
            logits, tokens = logits[mx.array(asking)], tokens[mx.array(asking)]
        logits = logits.astype(mx.float32)
        whole = mx.logsumexp(logits, axis=-1, keepdims=True)
        picked = mx.take_along_axis(logits, tokens[:, None].astype(mx.int32), axis=-1) - whole
        ids = _likeliest(logits, max(width or 0 for width in widths))
        best = mx.take_along_axis(logits, ids, axis=-1) - whole
        return cls(widths, picked[:, 0], ids, best)

    @property
    def arrays(self) -> list[mx.array]:
        return [self.picked, self.ids, self.best]

    def read(self, tokens: Sequence[int]) -> list[Scored | None]:
        """One for each row of the step whose tokens these are. Waits for the arrays."""
        asked = iter(zip(*(array.tolist() for array in self.arrays), strict=True))
        return [
            None if width is None else _scored(token, width, *next(asked))
            for token, width in zip(tokens, self.widths, strict=True)
        ]


def _scored(token: int, width: int, picked: float, ids: list[int], best: list[float]) -> Scored:
    top = zip(ids[:width], best[:width], strict=True)
    return Scored(TokenLogprob(token, picked), tuple(TokenLogprob(*pair) for pair in top))


def _likeliest(logits: mx.array, count: int) -> mx.array:
    """Ids of the `count` largest logits of each row, largest first."""
    count = min(count, logits.shape[-1])
    if count == 0:
        return mx.zeros((logits.shape[0], 0), dtype=mx.int32)
    if count == 1:  # several times as quick, and what evaluations ask for
        return mx.argmax(logits, axis=-1, keepdims=True).astype(mx.int32)
    ids = mx.argpartition(-logits, kth=count - 1, axis=-1)[:, :count]
    order = mx.argsort(-mx.take_along_axis(logits, ids, axis=-1), axis=-1)
    return mx.take_along_axis(ids, order, axis=-1).astype(mx.int32)
