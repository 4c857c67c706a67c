"""Drafts change no law: the first tokens of sampled answers, counted over many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.base import Draft
from engine.pick import Pick
from engine.sampling import sample
from engine.step import Verify
from engine.types import SamplingParams

VOCABULARY = 5
DRAWS = 10_000
LIMIT = 178.0
"""0.999 quantile of chi-square with 124 degrees of freedom; the draws are fixed by the seeds."""

PLAIN = SamplingParams(temperature=0.9)
TABLES = [
    np.random.default_rng(depth).standard_normal((VOCABULARY,) * depth) * 1.5 for depth in (1, 2, 3)
]
"""Logits of the first token, of the second after each first, of the third after both."""


def laws(params: SamplingParams) -> list[np.ndarray]:
    """The tables as probabilities."""
    found = []
    for table in TABLES:
        scaled = table / params.temperature
        if params.top_k:
            least = np.sort(scaled, axis=-1)[..., -params.top_k, None]
            scaled = np.where(scaled >= least, scaled, -np.inf)
        weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        found.append(weights / weights.sum(axis=-1, keepdims=True))
    return found


def picked(params: SamplingParams, seeds: Sequence[int], before: np.ndarray) -> list[int]:
    """Each seed's token after the tokens `before` [seeds, position]."""
    position = before.shape[1]
    logits = TABLES[position][tuple(before.T)] if position else np.tile(TABLES[0], (len(seeds), 1))
    picks = [Pick(replace(params, seed=seed), position) for seed in seeds]
    return sample(mx.array(logits.astype(np.float32)), picks).tolist()


def answers(params: SamplingParams, drafts: np.ndarray) -> list[list[int]]:
    """Three tokens of every seed: one step that verifies two drafted ones, then plain steps."""
    seeds = range(len(drafts))
    verified = np.stack([picked(params, seeds, drafts[:, :width]) for width in range(3)], axis=1)
    rows: list[Any] = [None] * len(drafts)
    proposed = [Draft(draft) for draft in drafts.tolist()]
    tokens = mx.array(verified.reshape(-1).astype(np.uint32))
    step = Verify(rows, tokens, None, 0.0, proposed, [3] * len(drafts), [])
    given = [[token for token, _ in standing] for standing in step.read()]
    for length in (1, 2):
        short = [seed for seed in seeds if len(given[seed]) == length]
        before = np.array([given[seed] for seed in short]).reshape(len(short), length)
        for seed, token in zip(short, picked(params, short, before), strict=True):
            given[seed].append(token)
    return given


@pytest.mark.parametrize(
    ("params", "quality"),
    [
        (PLAIN, "the target's own law"),
        (PLAIN, "flat"),
        (PLAIN, "always the same"),
        (replace(PLAIN, top_k=3), "flat"),
    ],
)
def test_three_tokens_have_the_target_s_joint_law_whatever_was_drafted(
    params: SamplingParams, quality: str
) -> None:
    first, second, third = laws(params)
    joint = first[:, None, None] * second[:, :, None] * third
    random = np.random.default_rng(9)
    likely = {
        "the target's own law": joint.sum(axis=2).reshape(-1),
        "flat": np.full(VOCABULARY**2, 1 / VOCABULARY**2),
        "always the same": np.eye(VOCABULARY**2)[7],
    }[quality]
    pairs = random.choice(VOCABULARY**2, DRAWS, p=likely)
    given = np.array(answers(params, np.stack(np.divmod(pairs, VOCABULARY), axis=1)))
    observed = np.zeros_like(joint)
    np.add.at(observed, tuple(given.T), 1)
    expected = joint * DRAWS
    assert not observed[expected == 0].any()
    possible = expected > 0
    assert (((observed - expected) ** 2)[possible] / expected[possible]).sum() < LIMIT
