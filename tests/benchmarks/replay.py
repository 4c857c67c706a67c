"""A drafter that knows answers but errs, and a batch that replays what a rejected draft undid."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from engine.batch import Batch
from engine.cache import RowCache
from engine.drafters.base import Draft, Drafter
from engine.row import Row
from engine.step import Verify


@dataclass
class NoisyOracle(Drafter):
    """Drafts the answers, by request id, each token right with this likelihood."""

    answers: dict[str, list[int]]
    right: float
    longest: int
    name: str = "oracle"
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: RowCache) -> list[Draft]:
        return [self._draft(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def _draft(self, row: Row, limit: int) -> Draft:
        coming = self.answers[row.request.id][len(row.tokens) :][:limit]
        tokens = [t if self.dice.random() < self.right else t - 1 if t else 1 for t in coming]
        return Draft(tokens, [self.right] * len(tokens))


class Replaying(Batch):
    """Rows that went back to before their drafts read what counts at once, in a second forward."""

    def keep(self, step: Verify, taken: Sequence[int]) -> None:
        super().keep(step, taken)
        reads = [tokens[:-1] for tokens in self._unread()]
        widths = [len(read) for read in reads]
        if not any(widths):
            return
        padded = [read + [0] * (max(widths) - len(read)) for read in reads]
        cache = self._shared
        cache.rows.expect(widths)
        self._caches.forward(mx.array(padded, dtype=mx.uint32), cache)
        mx.async_eval(cache.arrays())
        cache.rows.advance(widths)
