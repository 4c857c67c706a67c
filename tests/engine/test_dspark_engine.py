"""DSpark drafters at work in the engine: nothing changes, and no context is ever out of step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.cache.attention
from engine.bus import Clock, EventBus
from engine.cache import RowCache, plan_for
from engine.drafters.base import Draft
from engine.drafters.dspark.drafter import DSpark
from engine.drafters.select import select
from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.types import EngineSettings, SamplingParams, Speculate
from tests.engine.dspark_checkpoints import NATIVE, random_weights, write
from tests.engine.dspark_reference import Reference
from tests.engine.dspark_rows import features, history
from tests.schedules import Job, check, jobs, play
from tests.tiny import tiny_llama
from tests.tiny_families import tiny_family

few = settings(
    max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
schedules = st.lists(jobs, min_size=3, max_size=6)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(tiny_llama(tmp_path_factory.mktemp("target"), layers=4, ends=False), "tiny")


@pytest.fixture(scope="module")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drafter")
    return write(folder, NATIVE, random_weights(NATIVE))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that grow often, and prompts read in several slices."""
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 16)


def drafted(
    model: LoadedModel, schedule: list[Job], drafter: Path, length: int, **choices: Any
) -> list[Row]:
    """Play a schedule with drafts of this length. Keyword arguments go to EngineSettings."""
    bus = EventBus(Clock(), 3, queue_limit=100)
    asked = {"speculate": Speculate.DSPARK, "drafter": str(drafter), "max_draft": length}
    return play(model, schedule, bus, 3, **asked, **choices)


@pytest.fixture
def compared(target: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Compares every greedy draft with the reference's; the rows it was done for."""
    reference, rows_compared = Reference(NATIVE, random_weights(NATIVE)), list[Row]()
    propose = DSpark.propose

    def checked(
        self: DSpark, rows: Sequence[Row], limits: Sequence[int], cache: RowCache
    ) -> list[Draft]:
        drafts = propose(self, rows, limits, cache)
        for row, draft in zip(rows, drafts, strict=True):
            tokens = history(row)
            if len(draft) and len(tokens) > 1 and row.request.sampling.temperature == 0:
                seen = features(target, tokens[:-1], (0, 1, 3))
                wanted = reference.draft(seen, tokens[-1], len(draft))
                assert list(draft.tokens) == wanted.tokens
                np.testing.assert_allclose(draft.chances, wanted.confidence, atol=1e-3)
                rows_compared.append(row)
        return drafts

    monkeypatch.setattr(DSpark, "propose", checked)
    return rows_compared


@few
@given(schedule=schedules, length=st.sampled_from([1, 3, 5]))
def test_every_draft_is_the_reference_s_whatever_rows_join_and_leave(
    target: LoadedModel, drafter: Path, compared: list[Row], schedule: list[Job], length: int
) -> None:
    check(target, schedule, drafted(target, schedule, drafter, length))


def test_what_a_row_begins_with_comes_with_its_context(
    target: LoadedModel, drafter: Path, compared: list[Row]
) -> None:
    """One that ended and one that runs lend theirs."""
    prompt = tuple(range(5, 45))
    greedy = SamplingParams()
    schedule = [
        Job(prompt, 4, greedy, 0, None),
        Job((*prompt, 9, 8, 7), 40, greedy, 25, None),
        Job((*prompt, 9, 8, 6), 12, greedy, 35, None),
    ]
    rows = drafted(target, schedule, drafter, 3)
    check(target, schedule, rows)
    assert rows[1].cached >= len(prompt) - 1
    assert rows[2].cached >= len(prompt) - 1
    assert set(map(id, compared)) == set(map(id, rows))


@pytest.mark.parametrize("family", ["qwen3", "qwen3_moe", "lfm2", "qwen3_next", "mamba2"])
@few
@given(
    schedule=schedules,
    length=st.sampled_from([2, 5]),
    choices=st.sampled_from([{}, {"confidence": 0.5}, {"drafter_bits": 4}]),
)
def test_rows_of_any_family_have_the_tokens_they_have_without(
    tmp_path_factory: pytest.TempPathFactory,
    family: str,
    schedule: list[Job],
    length: int,
    choices: dict[str, Any],
) -> None:
    model = load(tiny_family(tmp_path_factory.mktemp(family), family), family)
    depth = len(model.model.layers)
    config = NATIVE | {"num_target_layers": depth, "target_layer_ids": [-1, depth - 2]}
    config |= {"draft_vocab_size": 90, "markov_head_type": "rnn"}
    folder = write(tmp_path_factory.mktemp("drafter"), config, random_weights(config))
    check(model, schedule, drafted(model, schedule, folder, length, **choices))


def chosen(target: LoadedModel, asked: EngineSettings) -> tuple[str, bool, str]:
    """(what drafts, whether that is a refusal, why)."""
    plan = plan_for(target.model)
    said = select(plan, target, asked, lambda _: None).stated
    return said.effective, said.refused, said.why


def test_a_drafter_that_doesn_t_fit_is_refused_and_auto_goes_on_without(
    target: LoadedModel, tmp_path: Path
) -> None:
    config = NATIVE | {"vocab_size": 640}
    folder = write(tmp_path, config, random_weights(config))
    why = "is for a model with 640 tokens"
    asked = EngineSettings(speculate=Speculate.DSPARK, drafter=str(folder))
    effective, refused, said = chosen(target, asked)
    assert (effective, refused) == ("off", True)
    assert why in said
    auto = EngineSettings(speculate=Speculate.AUTO, drafter=str(folder))
    effective, refused, said = chosen(target, auto)
    assert (effective, refused) == ("ngram", False)
    assert why in said


@pytest.mark.parametrize(
    ("choice", "why"),
    [({"confidence": 1.5}, "from 0 to 1, not 1.5"), ({"drafter_bits": 3}, "4 or 8 bits, not 3")],
)
def test_choices_reach_the_drafter(
    target: LoadedModel, drafter: Path, choice: dict[str, Any], why: str
) -> None:
    asked = EngineSettings(speculate=Speculate.DSPARK, drafter=str(drafter), **choice)
    effective, refused, said = chosen(target, asked)
    assert (effective, refused) == ("off", True)
    assert why in said
