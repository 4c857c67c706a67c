"""What DSpark drafts, against an independent numpy forward, row by row and one shot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.dspark.drafter import DSpark
from engine.drafters.dspark.load import load_model
from engine.models.load import LoadedModel, load
from engine.models.taps import Taps
from engine.row import Row
from engine.types import SamplingParams
from tests.engine.dspark_checkpoints import NATIVE, Weights, random_weights, speculators, write
from tests.engine.dspark_reference import Reference
from tests.engine.dspark_rows import Rows, features, history
from tests.tiny import tiny_llama

PROMPTS = ([5, 9, 200, 17, 33, 8, 64, 90, 31, 7], [12], [44, 45, 46, 47])
TAPPED = (0, 1, 3)

VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": NATIVE,
    "gated": NATIVE | {"markov_head_type": "gated"},
    "rnn": NATIVE | {"markov_head_type": "rnn"},
    "no Markov head": NATIVE | {"markov_rank": 0, "confidence_head_with_markov": False},
    "no confidence head": NATIVE | {"enable_confidence_head": False},
    "confidence without Markov": NATIVE | {"confidence_head_with_markov": False},
    "reduced": NATIVE | {"draft_vocab_size": 90},
    "reduced rnn": NATIVE | {"draft_vocab_size": 90, "markov_head_type": "rnn"},
    "biased": NATIVE | {"attention_bias": True},
    "speculators": speculators(),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(tiny_llama(tmp_path_factory.mktemp("target"), layers=4, ends=False), "tiny")


def made(
    target: LoadedModel,
    folder: Path,
    config: dict[str, Any],
    confidence: float = 0.0,
    seed: int = 0,
) -> tuple[DSpark, Weights]:
    weights = random_weights(config, seed)
    model = load_model(write(folder, config, weights), target)
    return DSpark(model, target.model, confidence), weights


def expected(
    target: LoadedModel, reference: Reference, row: Row, count: int
) -> tuple[list[int], list[float] | None]:
    tokens = history(row)
    seen = features(target, tokens[:-1], TAPPED) if len(tokens) > 1 else np.zeros((0, 192))
    drafted = reference.draft(seen, tokens[-1], count)
    return drafted.tokens, drafted.confidence


def check(target: LoadedModel, rows: Rows, reference: Reference, count: int) -> None:
    for row, draft in zip(rows.rows, rows.propose(), strict=True):
        tokens, confidence = expected(target, reference, row, count)
        assert list(draft.tokens) == tokens
        if confidence is not None:
            np.testing.assert_allclose(draft.chances, confidence, atol=1e-4)


def test_taps_read_what_layers_are_given(target: LoadedModel) -> None:
    tokens = [5, 9, 200, 17]
    logits, read = Taps(target.model, TAPPED).read(mx.array([tokens]), None)
    np.testing.assert_allclose(read[0], features(target, tokens, TAPPED), atol=1e-5)
    assert mx.array_equal(logits, target.model(mx.array([tokens])))


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_drafts_are_the_reference_s(
    target: LoadedModel, tmp_path: Path, config: dict[str, Any]
) -> None:
    drafter, weights = made(target, tmp_path, config)
    rows, reference = Rows(target, drafter), Reference(config, weights)
    for prompt in PROMPTS:
        rows.join(prompt, slices=3)
    check(target, rows, reference, 5)
    rows.verify([[1, 2, 3], [], [9]], [[1, 2, 60], [61], [62]])  # unequal drafts and acceptance
    check(target, rows, reference, 5)


def test_logits_are_the_reference_s(target: LoadedModel, tmp_path: Path) -> None:
    config = NATIVE | {"markov_rank": 0, "confidence_head_with_markov": False}
    weights = random_weights(config)
    model = load_model(write(tmp_path, config, weights), target)
    rows = Rows(target, DSpark(model, target.model))
    rows.join(PROMPTS[0])
    contexts = rows.cache.context
    latest = mx.array([PROMPTS[0][-1]], dtype=mx.uint32)
    got = model.vocabulary.project(model.block(latest, len(PROMPTS[0]) - 1, contexts))[0]
    seen = features(target, PROMPTS[0][:-1], TAPPED)
    wanted = Reference(config, weights).draft(seen, PROMPTS[0][-1], 5).logits
    np.testing.assert_allclose(np.array(got), wanted, atol=1e-4)


@pytest.mark.parametrize("non_causal", [False, True])
@pytest.mark.parametrize("drafts", [4, 5])
def test_windowed_layers_and_blocks_that_keep_the_first_place(
    target: LoadedModel, tmp_path: Path, non_causal: bool, drafts: int
) -> None:
    config = speculators(sliding_window_non_causal=non_causal)
    config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] = drafts
    config["transformer_layer_config"] |= {
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 6,
    }
    drafter, weights = made(target, tmp_path, config)
    assert drafter.longest == drafts
    reference = Reference(config, weights, first=5 - drafts)
    rows = Rows(target, drafter)
    rows.join(PROMPTS[0])
    check(target, rows, reference, drafts)
    rows.join(PROMPTS[2])
    check(target, rows, reference, drafts)


def test_heads_that_may_attend_to_nothing(target: LoadedModel, tmp_path: Path) -> None:
    """No config says so, the tensors do."""
    config, weights = speculators(), random_weights(speculators())
    for layer in range(2):
        bias = np.linspace(-1, 3, 4, dtype=np.float32)
        weights[f"layers.{layer}.self_attn.attention_sink_bias"] = bias
    drafter = DSpark(load_model(write(tmp_path, config, weights), target), target.model)
    rows = Rows(target, drafter)
    rows.join(PROMPTS[0])
    check(target, rows, Reference(config, weights), 5)
    rows.join(PROMPTS[2])
    check(target, rows, Reference(config, weights), 5)


def test_rows_join_leave_and_change_places(target: LoadedModel, tmp_path: Path) -> None:
    drafter, weights = made(target, tmp_path, NATIVE)
    reference, rows = Reference(NATIVE, weights), Rows(target, drafter)
    first, second, third = (rows.join(prompt) for prompt in PROMPTS)
    rows.leave(first)  # the last row takes its place
    assert rows.rows == [third, second]
    check(target, rows, reference, 5)
    rows.verify([[7, 8], [9]], [[7, 8, 10], [11]])
    rows.join(PROMPTS[0][::-1])
    check(target, rows, reference, 5)
    rows.leave(second)
    rows.leave(third)
    check(target, rows, reference, 5)


def test_limits_and_confidence_cut_drafts(target: LoadedModel, tmp_path: Path) -> None:
    drafter, _ = made(target, tmp_path / "all", NATIVE)
    rows = Rows(target, drafter)
    for prompt in PROMPTS:
        rows.join(prompt)
    whole = rows.propose()
    assert [len(draft) for draft in rows.propose([2, 0, 9])] == [2, 0, 5]
    assert not any(map(len, rows.propose(0)))
    least = sorted(chance for draft in whole for chance in draft.chances)[7]
    sure, _ = made(target, tmp_path / "sure", NATIVE, confidence=least)
    rows.drafter = sure
    for draft, cut in zip(whole, rows.propose(), strict=True):
        kept = [chance >= least for chance in draft.chances]
        assert len(cut) == (kept.index(False) if False in kept else 5)
        assert list(cut.tokens) == list(draft.tokens[: len(cut)])


def test_a_permutation_in_the_markov_head_is_followed(target: LoadedModel, tmp_path: Path) -> None:
    """With nothing else to go by, drafts are π(latest), π²(latest) …: no place is off by one."""
    config = NATIVE | {"markov_rank": 320}
    weights = random_weights(config)
    permutation = np.random.default_rng(1).permutation(320)
    weights["norm.weight"][:] = 0
    weights["markov_head.markov_w1.weight"] = np.eye(320, dtype=np.float32)
    weights["markov_head.markov_w2.weight"] = np.eye(320, dtype=np.float32)[
        :, permutation.argsort()
    ]
    model = load_model(write(tmp_path, config, weights), target)
    rows = Rows(target, DSpark(model, target.model))
    rows.join(PROMPTS[0])
    [draft] = rows.propose()
    wanted, token = [], PROMPTS[0][-1]
    for _ in range(5):
        token = int(permutation[token])
        wanted.append(token)
    assert list(draft.tokens) == wanted


def test_a_sampled_row_drafts_with_the_target_s_own_random_numbers(
    target: LoadedModel, tmp_path: Path
) -> None:
    """Drafts of the reduced vocabulary too are picked as the target would pick from such logits."""
    from engine.pick import Pick
    from engine.sampling import sample

    config = NATIVE | {"draft_vocab_size": 90, "markov_rank": 0}
    config |= {"confidence_head_with_markov": False}
    drafter, weights = made(target, tmp_path, config)
    sampling = SamplingParams(temperature=1.5, seed=11, top_p=0.9)
    rows = Rows(target, drafter)
    rows.join(PROMPTS[0], sampling)
    rows.join(PROMPTS[2])
    reference = Reference(config, weights)
    seen = features(target, PROMPTS[0][:-1], TAPPED)
    logits = reference.draft(seen, PROMPTS[0][-1], 5).logits
    wide = np.full((5, 320), -np.inf, np.float32)
    wide[:, np.arange(90) + weights["d2t"]] = logits
    picks = [Pick(sampling, len(PROMPTS[0]) + place) for place in range(5)]
    sampled, greedy = rows.propose()
    assert list(sampled.tokens) == sample(mx.array(wide), picks).tolist()
    assert list(greedy.tokens) == expected(target, reference, rows.rows[1], 5)[0]
