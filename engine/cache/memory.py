"""How much memory rows take, by what each layer keeps of them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import mlx.core as mx

from engine.cache.attention import row_step, token_step
from engine.cache.batch import BatchCache
from engine.cache.plan import CachePlan
from engine.cache.protocols import LayerMemory
from engine.models.kv import bytes_per_token


@dataclass(frozen=True, slots=True)
class RowMemory:
    """What the rows of one model take. Full attention keeps every token, a sliding window its
    latest, a recurrent layer a state that never grows."""

    layers: tuple[LayerMemory, ...]

    def bytes(self, rows: int, longest: int) -> int:
        """Of a batch of `rows` rows, the longest of so many tokens; with the room they share."""
        room = token_step(longest)
        return row_step(rows) * sum(
            layer.fixed + layer.per_token * min(room, layer.most or room) for layer in self.layers
        )

    def longest(self, budget: int, limit: int) -> int:
        """How many tokens, at most `limit`, one row can hold in `budget` bytes."""
        return bisect_right(range(1, limit + 1), budget, key=lambda tokens: self.bytes(1, tokens))


def measure(plan: CachePlan) -> RowMemory:
    """Read one token and look: no config states it."""
    if plan.alone:
        return RowMemory((LayerMemory(per_token=bytes_per_token(plan.model, plan.kv_bits)),))
    cache = BatchCache(plan.model, plan.kv_bits, plan.drafter)
    cache.append_empty()
    mx.eval(plan.forward(mx.array([[0]]), cache), cache.arrays())
    return RowMemory(tuple(cache.memory()))
