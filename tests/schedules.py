"""Schedules of joining, leaving and cancelled requests, played turn by turn without a thread.

The reference is mlx-lm's own unbatched path: its caches, the whole prompt in one forward, one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from hypothesis import strategies as st

from engine.bus import Clock, EventBus
from engine.loop import Loop
from engine.models.kv import own_caches
from engine.models.load import LoadedModel
from engine.penalties import penalised
from engine.pick import Pick
from engine.row import Row
from engine.sampling import sample
from engine.types import EngineSettings, GenerationRequest, SamplingParams


@dataclass(frozen=True)
class Job:
    """A request, the loop turn it arrives at, and the turn it is cancelled at, if any."""

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams
    arrives: int
    cancelled: int | None


COMMON = tuple(range(5, 30))
"""A prompt of several rows, which is read once for those who wait together."""
prompts = st.one_of(
    st.just(COMMON), st.lists(st.integers(3, 319), min_size=1, max_size=40).map(tuple)
)
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


def solo(
    model: LoadedModel, prompt: tuple[int, ...], count: int, params: SamplingParams
) -> tuple[int, ...]:
    """The tokens a request would get alone."""
    caches = own_caches(model.model, model.kv_bits)
    tokens: list[int] = []
    inputs = list(prompt)
    while len(tokens) < count:
        picks = [Pick(params, len(prompt) + len(tokens), prompt, tokens)]
        logits = model.model(mx.array([inputs]), cache=caches)[:, -1]
        token = int(sample(penalised(logits, picks, mx.array(inputs[-1:])), picks)[0])
        tokens.append(token)
        inputs = [token]
    return tuple(tokens)


def run(model: LoadedModel, schedule: list[Job], slots: int) -> list[Row]:
    """Play a schedule on an engine of its own and return the rows in the schedule's order."""
    return play(model, schedule, EventBus(Clock(), slots, queue_limit=100), slots)


def play(
    model: LoadedModel, schedule: list[Job], bus: EventBus, slots: int, **settings: Any
) -> list[Row]:
    """As `run`, the events going to `bus`. Keyword arguments go to EngineSettings."""
    clock = bus.clock
    loop = Loop(model, EngineSettings(max_batch=slots, **settings), bus, clock, lambda _: None)
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


def check(model: LoadedModel, schedule: list[Job], rows: list[Row]) -> None:
    """Every row has its solo tokens, a cancelled one the first of them."""
    for job, row in zip(schedule, rows, strict=True):
        expected = solo(model, job.prompt, job.max_tokens, job.sampling)
        whole = job.cancelled is None
        assert tuple(row.tokens) == (expected if whole else expected[: len(row.tokens)])
