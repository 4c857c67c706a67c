"""Pick tokens: a pure function of (logits, parameters, seed, position, the row's own history).

Sampling adds Gumbel noise keyed by (seed, position) and takes the argmax; temperature 0 adds none.
So a seed reproduces whoever else is in the batch, and a draft can be checked against the very token
the target picks. What applies, in this order: logit_bias, penalties (`engine.penalties`),
temperature, top_k, top_p (over what top_k kept), min_p, XTC (over what the others kept).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.pick import Pick
from engine.types import SamplingParams

CANDIDATES, MORE_CANDIDATES = 64, 1024
"""Partitions to this many best logits nearly always hold the top-p mass; sorting the whole
vocabulary costs several times as much on a CPU."""

Processor = Callable[[mx.array], mx.array]
"""Changes one row's logits, shape [vocabulary]."""


def sample(logits: mx.array, picks: Sequence[Pick]) -> mx.array:
    """The next token of each row, uint32 [rows], from logits [rows, vocabulary].

    Lazy unless a row `needs_sync`; every row's result depends on that row alone.
    """
    noisy = [row for row, pick in enumerate(picks) if pick.params.temperature > 0]
    if not noisy:
        return mx.argmax(logits, axis=-1)
    if len(noisy) == len(picks):
        return _sample(logits, picks)
    tokens = mx.argmax(logits, axis=-1)
    tokens[mx.array(noisy)] = _sample(logits[mx.array(noisy)], [picks[row] for row in noisy])
    return tokens


def needs_sync(params: SamplingParams) -> bool:
    """Whether picking reads values back in the middle, so that steps can't overlap."""
    return params.temperature > 0 and params.top_p < 1 and not 0 < params.top_k <= CANDIDATES


def processors(params: SamplingParams) -> list[Processor]:
    """What runs on this row's logits before the token is picked."""
    return [_biased(params.logit_bias)] if params.logit_bias else []


def _biased(bias: tuple[tuple[int, float], ...]) -> Processor:
    tokens = mx.array([token for token, _ in bias])
    amounts = mx.array([amount for _, amount in bias])

    def add(logits: mx.array) -> mx.array:
        return logits.at[tokens].add(amounts.astype(logits.dtype))

    return add


def _sample(logits: mx.array, picks: Sequence[Pick]) -> mx.array:
    temperatures = mx.array([pick.params.temperature for pick in picks])
    scaled = logits.astype(mx.float32) / temperatures[:, None]
    scaled = _filtered(scaled, picks)
    keys = mx.array([pick.key for pick in picks], dtype=mx.uint32)
    noise = mx.vmap(lambda key: mx.random.gumbel(scaled.shape[1:], key=key))(keys)
    return mx.argmax(scaled + noise, axis=-1)


def _filtered(logits: mx.array, picks: Sequence[Pick]) -> mx.array:
    """Logits with everything the rows' filters drop at minus infinity."""
    lowest = mx.array(-math.inf)
    cuts = [_cut(logits[row], pick.params) for row, pick in enumerate(picks)]
    if any(cut is not None for cut in cuts):
        limits = mx.stack([lowest if cut is None else cut for cut in cuts])
        logits = mx.where(logits >= limits[:, None], logits, lowest)
    if any(_excludes_top(pick) for pick in picks):
        highest = mx.array(math.inf)
        ceilings = [
            _ceiling(logits[row], pick.params.xtc_threshold) if _excludes_top(pick) else highest
            for row, pick in enumerate(picks)
        ]
        logits = mx.where(logits <= mx.stack(ceilings)[:, None], logits, lowest)
    return logits


def _excludes_top(pick: Pick) -> bool:
    return pick.coin < pick.params.xtc_probability


def _ceiling(logits: mx.array, threshold: float) -> mx.array:
    """The lowest logit whose probability is above the threshold; infinite if there is none."""
    limit = mx.logsumexp(logits) + math.log(threshold)
    return mx.min(mx.where(logits > limit, logits, math.inf))


def _cut(logits: mx.array, params: SamplingParams) -> mx.array | None:
    """The lowest logit this row keeps (a scalar array), None to keep all. Ties at it are kept."""
    cuts = []
    if params.min_p > 0:
        cuts.append(mx.max(logits) + math.log(params.min_p))
    if 0 < params.top_k < logits.size or params.top_p < 1:
        cuts.append(_rank_cut(logits, params))
    if not cuts:
        return None
    return mx.max(mx.stack(cuts))


def _rank_cut(logits: mx.array, params: SamplingParams) -> mx.array:
    """The lowest logit that top_k and top_p keep together."""
    if 0 < params.top_k < logits.size:
        logits = _best(logits, params.top_k)
    return logits[-1] if params.top_p >= 1 else _nucleus_cut(logits, params.top_p)


def _nucleus_cut(logits: mx.array, top_p: float) -> mx.array:
    """The lowest logit of the smallest set of best ones whose mass reaches top_p.

    Looks at a few best logits first and at more only when their mass falls short, which has to be
    read back; `needs_sync` says when that can happen.
    """
    whole = mx.logsumexp(logits)
    for count in (CANDIDATES, MORE_CANDIDATES, logits.size):
        best = _best(logits, min(count, logits.size))
        mass = mx.cumsum(mx.exp(best - whole))
        if count >= logits.size or float(mass[-1]) >= top_p:
            break
    # A token stays while the mass before it is short of top_p; the best one always stays.
    before = mass - mx.exp(best - whole)
    kept = mx.maximum(mx.sum(before < top_p), 1)
    return best[kept - 1]


def _best(logits: mx.array, count: int) -> mx.array:
    """The `count` largest logits, largest first."""
    if count < logits.size:
        logits = mx.topk(logits, count)
    return -mx.sort(-logits)
