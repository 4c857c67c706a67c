"""Whatever joins or leaves beside it, a row's tokens are those it would have alone.

The reference is mlx-lm's own unbatched path: its KVCache, the whole prompt in one forward, one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

import engine.cache.attention
from engine.bus import Clock, EventBus
from engine.loop import Loop
from engine.models.load import LoadedModel, load
from engine.penalties import penalised
from engine.pick import Pick
from engine.row import Row
from engine.sampling import sample
from engine.scheduler import PrefillBudget
from engine.types import EngineSettings, GenerationRequest, SamplingParams


@dataclass(frozen=True)
class Job:
    """A request, the loop turn it arrives at, and the turn it is cancelled at, if any."""

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams
    arrives: int
    cancelled: int | None


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


def solo(
    model: LoadedModel, prompt: tuple[int, ...], count: int, params: SamplingParams
) -> tuple[int, ...]:
    caches = make_prompt_cache(model.model)
    tokens: list[int] = []
    inputs = list(prompt)
    while len(tokens) < count:
        picks = [Pick(params, len(prompt) + len(tokens), prompt, tokens)]
        logits = model.model(mx.array([inputs]), cache=caches)[:, -1]
        token = int(sample(penalised(logits, picks, mx.array(inputs[-1:])), picks)[0])
        tokens.append(token)
        inputs = [token]
    return tuple(tokens)


prompts = st.lists(st.integers(3, 319), min_size=1, max_size=40).map(tuple)
penalties = st.builds(
    SamplingParams,
    repetition_penalty=st.sampled_from([1.0, 1.1, 1.5]),
    repetition_context=st.sampled_from([1, 5, 20]),
    presence_penalty=st.sampled_from([0.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.3]),
)
samplings = st.one_of(
    st.just(SamplingParams()),
    penalties,
    st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.5, 1.0, 1.7]),
        top_p=st.sampled_from([1.0, 0.9, 0.4]),
        top_k=st.sampled_from([0, 0, 3, 100]),
        min_p=st.sampled_from([0.0, 0.0, 0.05]),
        xtc_probability=st.sampled_from([0.0, 0.0, 0.5]),
        frequency_penalty=st.sampled_from([0.0, 0.0, 0.5]),
        seed=st.integers(0, 2**64 - 1),
    ),
)
jobs = st.builds(
    Job,
    prompt=prompts,
    max_tokens=st.integers(1, 24),
    sampling=samplings,
    arrives=st.integers(0, 30),
    cancelled=st.one_of(st.none(), st.none(), st.integers(0, 50)),
)


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

    for job, row in zip(schedule, rows, strict=True):
        expected = solo(model, job.prompt, job.max_tokens, job.sampling)
        if job.cancelled is None:
            assert tuple(row.tokens) == expected
        else:
            assert tuple(row.tokens) == expected[: len(row.tokens)]


def run(model: LoadedModel, schedule: list[Job], slots: int) -> list[Row]:
    """Play a schedule turn by turn, without a thread, and return the rows in its order."""
    clock = Clock()
    bus = EventBus(clock, slots, queue_limit=100)
    loop = Loop(model, EngineSettings(max_batch=slots), bus, clock, lambda _: None)
    rows: dict[int, Row] = {}
    turn = 0
    while len(rows) < len(schedule) or not loop.idle:
        for index, job in enumerate(schedule):
            if job.arrives == turn:
                request = GenerationRequest(f"r{index}", job.prompt, job.max_tokens, job.sampling)
                rows[index] = loop.enqueue(request, lambda _: None, clock.now())
            if job.cancelled is not None and job.cancelled == turn - job.arrives:
                loop.cancel(f"r{index}")
        loop.turn()
        turn += 1
        assert turn < 5000, "the loop makes no progress"
    return [rows[index] for index in range(len(schedule))]


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
