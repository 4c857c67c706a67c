"""How a model's rows can be kept: by its caches' kinds and by trying, never by its name.

mlx-lm's kinds of cache say how rows could be batched. Whether the model's own code goes along can
only be tried: some compute positions as one number for all rows, some let right padding into their
recurrent state. So a few short rows are read by mlx-lm's own single-row path and as a batch, and
their next logits compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from engine.cache.batch import BatchCache, UnbatchableError
from engine.cache.protocols import Reader, RowCache
from engine.cache.solo import SoloCache
from engine.events import Capability
from engine.models.capabilities import Feature, stated
from engine.models.errors import one_line
from engine.models.kv import own_caches

PROMPTS = ((1,), (2, 0, 3), (3, 1, 2, 0, 2, 1, 3))
"""Rows to try with; all but their last tokens are read together, as 0, 2 and 6 tokens."""

TOLERANCE = 0.1
"""How far off logits may be, relative to their size, to count as rounding. In half precision tiny
models stayed under 0.02; one that lets padding into its state was off by 0.8."""


@dataclass(frozen=True, slots=True)
class CachePlan:
    """How the rows of one model are kept.

    kv_bits: of quantized K and V, None for none. alone: why rows can't share a forward; "" when
    they can. ragged: whether unequal numbers of tokens may be read in one forward, right-padded.
    drafter: reads along with the model; None for none, and for rows that are alone.
    """

    model: Any
    kv_bits: int | None = None
    alone: str = ""
    ragged: bool = True
    drafter: Reader | None = None

    def capability(self, slots: int) -> Capability:
        """What becomes of a batch of `slots` rows."""
        effective, why = slots, "rows share every forward"
        if self.alone:
            effective, why = 1, self.alone
        elif not self.ragged:
            why += "; prompts of unequal length are read one after the other"
        refused = effective < slots
        return stated(Feature.BATCHING, _slots(slots), _slots(effective), why, refused=refused)

    def new(self) -> RowCache:
        """An empty cache."""
        if self.alone:
            return SoloCache(lambda: own_caches(self.model, self.kv_bits))
        return BatchCache(self.model, self.kv_bits, self.drafter)

    def forward(self, tokens: mx.array, cache: RowCache) -> mx.array:
        """The model's logits [rows, width, vocabulary] after reading tokens [rows, width] behind
        each row's length; whoever calls advances the lengths."""
        if self.drafter is not None and isinstance(cache, BatchCache):
            return self.drafter.read(self.model, tokens, cache)
        logits: mx.array = self.model(tokens, cache=cache.layers)
        return logits


def plan_for(model: Any, kv_bits: int | None = None) -> CachePlan:
    """Try `model` on the calling thread, which is the one that runs it.

    Each forward is evaluated before the next is begun: ranks of a pipeline send and receive in the
    order of their forwards, to which one evaluation of several need not keep. Raises what the model
    raises if it can't even read one row.
    """
    wanted = mx.stack([_next_logits(model, prompt, kv_bits) for prompt in PROMPTS])
    plan = CachePlan(model, kv_bits)
    if not _fault(plan, _read_together, wanted):
        return plan
    return replace(plan, alone=_fault(plan, _read_apart, wanted), ragged=False)


def _next_logits(model: Any, prompt: tuple[int, ...], kv_bits: int | None) -> mx.array:
    """float32 [vocabulary], by mlx-lm's single-row path."""
    logits: mx.array = model(mx.array([prompt]), cache=own_caches(model, kv_bits))
    mx.eval(logits)
    return logits[0, -1].astype(mx.float32)


def _fault(plan: CachePlan, read: Callable[[CachePlan], BatchCache], wanted: mx.array) -> str:
    """What is wrong with the rows' next logits once `read` has filled a cache; "" if nothing."""
    try:
        cache = read(plan)
        last = mx.array([prompt[-1:] for prompt in PROMPTS])
        got = plan.model(last, cache=cache.layers)[:, -1].astype(mx.float32)
        off = mx.linalg.norm(got - wanted, axis=-1) / mx.linalg.norm(wanted, axis=-1)
        return (
            ""
            if bool((off.max() <= TOLERANCE).item())
            else "the model's rows change each other's answers"
        )
    except UnbatchableError as error:
        return str(error)
    except Exception as error:  # whatever a model's code does with more than one row
        return f"the model's code can't run rows at different positions: {one_line(error)}"


def _read_together(plan: CachePlan) -> BatchCache:
    """The rows' prompts in one forward, right-padded."""
    cache = BatchCache(plan.model, plan.kv_bits)
    widths = [len(prompt) - 1 for prompt in PROMPTS]
    padded = [[*prompt[:-1], *[0] * (max(widths) + 1 - len(prompt))] for prompt in PROMPTS]
    for _ in PROMPTS:
        cache.append_empty()
    cache.rows.expect(widths)
    plan.model(mx.array(padded), cache=cache.layers)
    mx.eval(cache.arrays())
    cache.rows.advance(widths)
    return cache


def _read_apart(plan: CachePlan) -> BatchCache:
    """Each row's prompt in a forward of its own, the rows joined afterwards."""
    cache = BatchCache(plan.model, plan.kv_bits)
    for prompt in PROMPTS:
        lone = BatchCache(plan.model, plan.kv_bits)
        lone.append_empty()
        if len(prompt) > 1:
            plan.model(mx.array([prompt[:-1]]), cache=lone.layers)
            mx.eval(lone.arrays())
            lone.rows.advance([len(prompt) - 1])
        cache.append_from(lone, 0)
    return cache


def _slots(count: int) -> str:
    return f"{count} slot" if count == 1 else f"{count} slots"
