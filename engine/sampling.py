"""Pick tokens: a pure function of (logits, parameters, seed, position).

Sampling adds Gumbel noise keyed by (seed, position) and takes the argmax; temperature 0 adds none.
So a seed reproduces whoever else is in the batch, and a draft can be checked against the very token
the target picks. Filters apply in this order: logit_bias, temperature, top_k, top_p (over what
top_k kept), min_p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.types import SamplingParams

CANDIDATES, MORE_CANDIDATES = 64, 1024
"""Partitions to this many best logits nearly always hold the top-p mass; sorting the whole
vocabulary costs several times as much on a CPU."""

Processor = Callable[[mx.array], mx.array]
"""Changes one row's logits, shape [vocabulary]."""

_MASK64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Pick:
    """One row's choice at one position (the absolute index the new token will have)."""

    params: SamplingParams
    position: int


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
    scaled = _filtered(scaled, [pick.params for pick in picks])
    keys = mx.array([_key(pick) for pick in picks], dtype=mx.uint32)
    noise = mx.vmap(lambda key: mx.random.gumbel(scaled.shape[1:], key=key))(keys)
    return mx.argmax(scaled + noise, axis=-1)


def _key(pick: Pick) -> tuple[int, int]:
    """The random key of (seed, position): two 32-bit words, mixed so that neighbouring seeds and
    positions share nothing (the finaliser of SplitMix64)."""
    word = (pick.params.seed * 0x9E3779B97F4A7C15 + pick.position * 0xD1B54A32D192ED03) & _MASK64
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK64
    word ^= word >> 31
    return word >> 32, word & 0xFFFFFFFF


def _filtered(logits: mx.array, params: Sequence[SamplingParams]) -> mx.array:
    """Logits with everything the rows' filters drop at minus infinity."""
    cuts = [_cut(logits[row], each) for row, each in enumerate(params)]
    if all(cut is None for cut in cuts):
        return logits
    lowest = mx.array(-math.inf)
    limits = mx.stack([lowest if cut is None else cut for cut in cuts])
    return mx.where(logits >= limits[:, None], logits, lowest)


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
