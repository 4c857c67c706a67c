"""Failures at random places of a step: each request ends once, and what was answered is right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import engine.cache.attention
import engine.loop
import engine.scheduler
from engine.batch import Batch
from engine.bus import Clock, EventBus
from engine.cache import BatchCache
from engine.loop import Loop
from engine.models.load import LoadedModel, load
from engine.prefill import PromptReader
from engine.prefix import PrefixCache
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.text import RowText
from engine.types import (
    EngineSettings,
    Finish,
    FinishReason,
    GenerationRequest,
    SamplingParams,
    Sink,
    Speculate,
    Update,
)
from tests.schedules import solo
from tests.tiny_families import tiny_family

REQUESTS, SLOTS = 80, 5
FAILING = 0.005
"""Of the calls of each of these:"""
PLACES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (Batch, ("launch", "verify", "keep", "join", "leave")),
    (BatchCache, ("append", "remove")),
    (PromptReader, ("add", "read", "remove")),
    (PrefixCache, ("find", "keep")),
    (Row, ("begin",)),
    (RowText, ("push",)),
)
SAMPLINGS = (
    SamplingParams(),
    SamplingParams(temperature=1.0, seed=7),
    SamplingParams(temperature=0.8, top_p=0.9, seed=7),
    SamplingParams(frequency_penalty=0.5),
)


class Faults:
    """Makes calls fail, before their work or after it, but not while a failure is cleared up.

    seen: how often, by name.
    """

    def __init__(self, patch: pytest.MonkeyPatch, dice: random.Random) -> None:
        self.seen: Counter[str] = Counter()
        self._dice, self._on = dice, True
        for owner, names in PLACES:
            for name in names:
                patch.setattr(owner, name, self._failing(name, getattr(owner, name)))
        recover = Loop._recover

        def recovered(loop: Loop, error: Exception) -> None:
            with self.none():
                recover(loop, error)

        patch.setattr(Loop, "_recover", recovered)

    @contextmanager
    def none(self) -> Iterator[None]:
        before, self._on = self._on, False
        yield
        self._on = before

    def _failing(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            fails = self._on and self._dice.random() < FAILING
            if fails and self._dice.random() < 0.5:
                self._fail(name)
            result = method(*args, **options)
            if fails:
                self._fail(name)
            return result

        return call

    def _fail(self, name: str) -> None:
        self.seen[name] += 1
        raise RuntimeError(f"{name} failed")


@pytest.fixture(params=["llama", "lfm2"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LoadedModel:
    return load(tiny_family(tmp_path, request.param), request.param)


def test_whatever_fails_every_request_ends_once_and_nothing_is_left(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.loop, "FAILURES_TOLERATED", 10**6)
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    monkeypatch.setattr(engine.scheduler, "GROWTH", 8)
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 16)  # not by time
    dice = random.Random(3)
    bus = EventBus(Clock(), SLOTS, queue_limit=REQUESTS)
    room = Loop(model, EngineSettings(SLOTS), bus, bus.clock, lambda _: None)._memory.cost(3, 70)
    settings = EngineSettings(
        SLOTS, kv_budget=2 * room, prefix_cache=room, speculate=Speculate.NGRAM, max_draft=4
    )
    forgotten: list[str] = []
    loop = Loop(model, settings, bus, bus.clock, forgotten.append)
    faults = Faults(monkeypatch, dice)
    ends: dict[str, list[Finish]] = {}
    rows: list[Row] = []
    while len(rows) < REQUESTS or not loop.idle:
        if len(rows) < REQUESTS and dice.random() < 0.5:
            request = _request(f"r{len(rows)}", dice)
            finishes = ends[request.id] = []
            rows.append(loop.enqueue(request, _keeper(finishes), bus.clock.now()))
        if loop._rows and dice.random() < 0.1:
            loop.cancel(dice.choice([*loop._rows]))
        loop.turn()
    assert len(faults.seen) > 5, faults.seen
    assert all(len(finishes) == 1 for finishes in ends.values())
    assert sorted(forgotten) == sorted(ends)
    reasons = Counter(finish.reason for (finish,) in ends.values())
    assert min(reasons[FinishReason.LENGTH], reasons[FinishReason.ERROR]) > REQUESTS // 10
    tables = (loop._rows, loop._batch.rows, loop._reader, loop._scheduler.queue)
    assert not any(len(table) for table in tables)
    assert sorted(loop._scheduler._free) == list(range(SLOTS))
    assert loop._speculation is not None
    assert not loop._speculation._drafter._texts  # type: ignore[attr-defined]
    for row in rows:
        request = row.request
        assert tuple(row.tokens) == solo(
            model, request.prompt, len(row.tokens), request.sampling
        ), ends[request.id]


def _request(id: str, dice: random.Random) -> GenerationRequest:
    stem = random.Random(dice.randrange(3)).choices(range(3, 60), k=20)
    prompt = (*stem[: dice.randint(1, 20)], *dice.choices(range(3, 60), k=dice.randint(0, 20)))
    sampling = dice.choice(SAMPLINGS)
    scored = dice.choice([None, None, 1])
    return GenerationRequest(id, prompt, dice.randint(1, 40), sampling, prompt_logprobs=scored)


def _keeper(finishes: list[Finish]) -> Sink:
    def sink(update: Update) -> None:
        if isinstance(update, Finish):
            finishes.append(update)

    return sink
