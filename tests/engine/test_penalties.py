"""Penalties: mlx-lm's and OpenAI's arithmetic, row by row, with the newest token on the device."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.sample_utils import make_repetition_penalty

from engine.penalties import penalised
from engine.pick import Pick
from engine.types import SamplingParams

VOCABULARY = 50
PROMPT = (7, 8, 9, 7)
ANSWER = (1, 2, 2, 3, 7, 2)


def logits_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(VOCABULARY).astype(np.float32)


def pick(
    params: SamplingParams, prompt: tuple[int, ...] = PROMPT, answer: tuple[int, ...] = ANSWER
) -> Pick:
    return Pick(params, len(prompt) + len(answer), prompt, answer)


def newest(picks: list[Pick]) -> mx.array:
    return mx.array([[*p.prompt, *p.tokens][p.position - 1] for p in picks], dtype=mx.uint32)


def run(rows: list[np.ndarray], picks: list[Pick]) -> np.ndarray:
    return np.array(penalised(mx.array(np.stack(rows)), picks, newest(picks)))


@pytest.mark.parametrize("context", [1, 2, 5, 20])
@pytest.mark.parametrize("answer", [(), (1,), ANSWER])
def test_repetition_is_mlx_lms(context: int, answer: tuple[int, ...]) -> None:
    params = SamplingParams(repetition_penalty=1.7, repetition_context=context)
    logits = logits_of(1)
    reference = make_repetition_penalty(1.7, context)
    history = mx.array([*PROMPT, *answer])
    expected = np.array(reference(history, mx.array(logits[None].copy())))
    np.testing.assert_allclose(run([logits], [pick(params, answer=answer)]), expected, rtol=1e-6)


@pytest.mark.parametrize("answer", [(), (1,), (2, 2), ANSWER])
def test_presence_and_frequency_count_what_was_generated(answer: tuple[int, ...]) -> None:
    params = SamplingParams(presence_penalty=0.6, frequency_penalty=-0.25)
    logits = logits_of(2)
    expected = logits.copy()
    for token, count in Counter(answer).items():
        expected[token] -= 0.6 - 0.25 * count
    (got,) = run([logits], [pick(params, answer=answer)])
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_rows_with_other_penalties_and_none_do_not_touch_each_other() -> None:
    picks = [
        pick(SamplingParams()),
        pick(SamplingParams(repetition_penalty=1.3), answer=()),
        pick(SamplingParams(frequency_penalty=1.5), prompt=(4,), answer=(5, 6, 5, 5)),
        pick(SamplingParams(repetition_penalty=0.5, presence_penalty=2.0), answer=(0, 49)),
    ]
    rows = [logits_of(seed) for seed in range(4)]
    together = run(rows, picks)
    for index, row in enumerate(rows):
        np.testing.assert_array_equal(together[index], run([row], [picks[index]])[0])
    np.testing.assert_array_equal(together[0], rows[0])


def test_a_history_that_already_has_the_newest_token_changes_nothing() -> None:
    """The host may or may not have read the newest token when the next is picked."""
    params = SamplingParams(repetition_penalty=1.2, frequency_penalty=0.4, presence_penalty=0.1)
    logits, position = logits_of(3), len(PROMPT) + len(ANSWER)
    read = Pick(params, position, PROMPT, ANSWER)
    under_way = Pick(params, position, PROMPT, ANSWER[:-1])
    later = Pick(params, position, PROMPT, (*ANSWER, 30, 31))
    rows = mx.array(np.stack([logits] * 3))
    latest = mx.array([ANSWER[-1]] * 3)
    first, second, third = np.array(penalised(rows, [read, under_way, later], latest))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_half_precision_logits_keep_their_type() -> None:
    params = SamplingParams(repetition_penalty=1.1, presence_penalty=0.5)
    logits = mx.array(logits_of(4)[None]).astype(mx.bfloat16)
    assert penalised(logits, [pick(params)], newest([pick(params)])).dtype == mx.bfloat16
