"""A token is a pure function of logits, parameters, seed and position."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.pick import Pick
from engine.sampling import processors, sample
from engine.types import SamplingParams

VOCABULARY = 500


def logits_of(seed: int, spread: float = 2.0, size: int = VOCABULARY) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(size) * spread).astype(np.float32)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def allowed(logits: np.ndarray, params: SamplingParams) -> set[int]:
    """The tokens that survive the filters, by sorting everything in numpy."""
    scaled = logits / params.temperature
    order = np.argsort(-scaled)
    kept = order[: params.top_k] if params.top_k else order
    mass = softmax(scaled[kept])
    before = np.cumsum(mass) - mass
    kept = kept[before < params.top_p] if params.top_p < 1 else kept
    if params.min_p:
        kept = [t for t in kept if scaled[t] >= scaled.max() + np.log(params.min_p)]
    return {int(t) for t in kept}


def excluded(logits: np.ndarray, params: SamplingParams) -> set[int]:
    """What XTC leaves out when it acts: of the tokens above the threshold all but the last."""
    kept = sorted(allowed(logits, params))
    mass = softmax(logits[kept] / params.temperature)
    above = [t for t, p in zip(kept, mass, strict=True) if p > params.xtc_threshold]
    return set(above) - {min(above, key=lambda t: logits[t], default=-1)}


def draw(logits: np.ndarray, params: SamplingParams, positions: range) -> list[int]:
    rows = mx.array(np.tile(logits, (len(positions), 1)))
    return sample(rows, [Pick(params, position) for position in positions]).tolist()


def test_greedy_is_the_argmax() -> None:
    logits = logits_of(1)
    assert draw(logits, SamplingParams(), range(3)) == [int(logits.argmax())] * 3


def test_samples_follow_the_softmax_over_positions() -> None:
    logits = logits_of(2, size=8)
    count = 20_000
    tokens = draw(logits, SamplingParams(temperature=1.0, seed=11), range(count))
    observed = np.bincount(tokens, minlength=8)
    expected = softmax(logits) * count
    chi_square = ((observed - expected) ** 2 / expected).sum()
    assert (
        chi_square < 24.3
    )  # 0.999 quantile at 7 degrees of freedom; the draw is fixed by the seed


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7, top_p=0.8),
        SamplingParams(temperature=3.0, top_p=0.97),  # flat: far more tokens than one partition
        SamplingParams(temperature=1.0, top_k=5),
        SamplingParams(temperature=1.0, top_k=200, top_p=0.9),
        SamplingParams(temperature=1.0, min_p=0.2),
        SamplingParams(temperature=1.5, top_k=40, top_p=0.9, min_p=0.02),
        SamplingParams(temperature=1.0, top_p=1e-6),
    ],
)
def test_filters_keep_exactly_what_a_full_sort_keeps(params: SamplingParams) -> None:
    logits = logits_of(3)
    tokens = draw(logits, params, range(3000))
    keep = allowed(logits, params)
    assert set(tokens) <= keep
    likely = {t for t in keep if softmax(logits / params.temperature)[t] > 0.01}
    assert likely <= set(tokens)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.05),
        SamplingParams(temperature=0.8, xtc_probability=1.0, xtc_threshold=0.1, top_k=3),
        SamplingParams(temperature=0.8, xtc_probability=1.0, xtc_threshold=0.01, top_p=0.9),
        SamplingParams(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.5),  # above: none
    ],
)
def test_xtc_leaves_out_the_likeliest_but_never_everything(params: SamplingParams) -> None:
    logits = logits_of(3)
    tokens = set(draw(logits, params, range(2000)))
    gone = excluded(logits, params)
    assert tokens <= allowed(logits, params) - gone
    assert bool(gone) == (params.xtc_threshold < 0.5)


def test_xtc_acts_as_often_as_it_is_told() -> None:
    logits = np.array([5.0, 4.9, -20.0], np.float32)
    params = SamplingParams(temperature=1.0, xtc_probability=0.3, seed=8)
    best = draw(logits, params, range(4000)).count(0) / 4000
    expected = 0.7 * softmax(logits)[0]
    assert best == pytest.approx(expected, abs=0.03)


def test_neighbours_and_row_order_do_not_matter() -> None:
    rows = [logits_of(seed) for seed in range(4)]
    picks = [
        Pick(SamplingParams(), 5),
        Pick(SamplingParams(temperature=1.0, seed=1), 6),
        Pick(SamplingParams(temperature=0.8, top_p=0.9, seed=2), 7),
        Pick(SamplingParams(temperature=1.3, top_k=20, xtc_probability=1.0, seed=3), 8),
    ]
    alone = [
        int(sample(mx.array(row[None]), [pick])[0]) for row, pick in zip(rows, picks, strict=True)
    ]
    together = sample(mx.array(np.stack(rows)), picks).tolist()
    turned = sample(mx.array(np.stack(rows[::-1])), picks[::-1]).tolist()
    assert together == alone
    assert turned == alone[::-1]


def test_seeds_and_positions_give_unrelated_draws() -> None:
    logits = np.zeros(1000, np.float32)
    first = draw(logits, SamplingParams(temperature=1.0, seed=1), range(200))
    second = draw(logits, SamplingParams(temperature=1.0, seed=2), range(200))
    assert first == draw(logits, SamplingParams(temperature=1.0, seed=1), range(200))
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 10
    assert sum(a == b for a, b in zip(first[1:], second, strict=False)) < 10


def test_logit_bias_is_added_before_the_pick() -> None:
    logits = logits_of(4)
    params = SamplingParams(logit_bias=((17, 100.0), (3, -5.0)))
    (process,) = processors(params)
    biased = np.array(process(mx.array(logits)))
    assert int(biased.argmax()) == 17
    assert biased[3] == pytest.approx(logits[3] - 5.0)
    assert processors(SamplingParams()) == []
