"""Whatever joins or leaves beside it, a row's tokens are those it would have alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.cache.attention
from engine.models.load import LoadedModel, load
from engine.scheduler import PrefillBudget
from engine.types import SamplingParams
from tests.schedules import Job, check, jobs, run, solo


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    schedule=st.lists(jobs, min_size=1, max_size=8),
    slots=st.integers(1, 5),
    slice_tokens=st.sampled_from([3, 16, 4096]),
)
def test_any_schedule_gives_each_row_its_solo_tokens(
    model: LoadedModel,
    monkeypatch: pytest.MonkeyPatch,
    schedule: list[Job],
    slots: int,
    slice_tokens: int,
) -> None:
    # Small buffers and slices, so that short tests meet every growth and every slice boundary.
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: slice_tokens)

    rows = run(model, schedule, slots)

    check(model, schedule, rows)


def test_rows_that_finish_early_leave_the_others_alone(model: LoadedModel) -> None:
    lengths = (1, 2, 3, 5, 8, 13, 21, 34)
    schedule = [Job((7, 9, 11 + n), n, SamplingParams(), 0, None) for n in lengths]

    rows = run(model, schedule, slots=8)

    for job, row in zip(schedule, rows, strict=True):
        longest = solo(model, job.prompt, max(lengths), job.sampling)
        assert tuple(row.tokens) == longest[: job.max_tokens]


def test_a_sampled_neighbour_joining_does_not_touch_a_greedy_row(model: LoadedModel) -> None:
    greedy = Job((4, 5, 6), 40, SamplingParams(), 0, None)
    sampled = Job((8, 9), 20, SamplingParams(temperature=1.2, seed=3), 10, None)

    first, second = run(model, [greedy, sampled], slots=2)

    assert tuple(first.tokens) == solo(model, greedy.prompt, 40, greedy.sampling)
    assert tuple(second.tokens) == solo(model, sampled.prompt, 20, sampled.sampling)
