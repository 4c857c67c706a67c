"""The record rank 0 keeps is all another rank's loop needs to do the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from llguidance import LLMatcher

import engine.cache.attention
import engine.scheduler
from engine.bus import Clock, EventBus
from engine.distributed.loops import DivergedError, FollowingLoop, LeadingLoop
from engine.distributed.messages import Message
from engine.distributed.ranks import Ranks
from engine.distributed.record import Record
from engine.events import Preempted, Step
from engine.models.load import LoadedModel, load
from engine.types import EngineSettings, Form, GenerationRequest, SamplingParams, Speculate
from tests.tiny_families import tiny_family

REQUESTS, SLOTS = 30, 5
FORM = Form(LLMatcher.grammar_from_json_schema({"enum": ["yes", "no"]}))
SAMPLINGS = (
    SamplingParams(),
    SamplingParams(temperature=1.0, seed=7, xtc_probability=0.5),
    SamplingParams(temperature=0.8, top_p=0.9, seed=7),
    SamplingParams(frequency_penalty=0.5),
    SamplingParams(logit_bias=((5, 9.0), (6, 9.0), (7, 8.0))),
)


@dataclass
class Told:
    """What the other ranks would be told."""

    messages: list[Message] = field(default_factory=list)
    lost: None = None

    def send(self, message: Message) -> None:
        self.messages.append(message)

    @contextmanager
    def working(self) -> Iterator[None]:
        yield


def leading(model: LoadedModel, settings: EngineSettings, told: Told) -> LeadingLoop:
    bus = EventBus(Clock(), SLOTS, REQUESTS)
    return LeadingLoop(model, settings, bus, lambda _: None, cast(Ranks, told))


@pytest.fixture
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LoadedModel:
    alone = load(tiny_family(tmp_path, request.param), request.param)
    return replace(alone, agreed=lambda tokens: tokens)


@pytest.mark.parametrize(
    ("model", "max_draft"), [("llama", None), ("qwen3_next", 4)], indirect=["model"]
)
def test_a_rank_repeats_cancels_pauses_drafts_and_rows_put_back(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, max_draft: int | None
) -> None:
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    monkeypatch.setattr(engine.scheduler, "GROWTH", 8)
    room = leading(model, EngineSettings(SLOTS), Told())._memory.cost(3, 70)
    settings = EngineSettings(
        SLOTS,
        kv_budget=2 * room,
        prefix_cache=room,
        speculate=Speculate.NGRAM,
        max_draft=max_draft,
    )
    told, dice = Told(), random.Random(5)
    loop = leading(model, settings, told)
    events = loop._bus.subscribe(lambda: None)
    events.drain()
    play(loop, dice)
    happened = events.drain()
    assert any(isinstance(event, Preempted) for event in happened)
    kinds = {event.kind for event in happened if isinstance(event, Step)}
    assert "verify" in kinds or max_draft is None, "as long as pays may be none"
    record = Record()
    for message in told.messages:
        record.add(message)
    FollowingLoop(model, settings, record).follow()
    assert record.place == len(told.messages)


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_a_rank_that_does_something_else_says_so(model: LoadedModel) -> None:
    told = Told()
    loop = leading(model, EngineSettings(SLOTS), told)
    loop.enqueue(GenerationRequest("r", (5, 6, 7), 4), lambda _: None, 0.0)
    for _ in range(6):
        loop.turn()
    loop.stop("over")
    record = Record()
    for message in told.messages:
        if not isinstance(message, float):
            record.add(message)
    with pytest.raises(DivergedError):
        FollowingLoop(model, EngineSettings(SLOTS), record).follow()


def play(loop: LeadingLoop, dice: random.Random) -> None:
    """Requests of all sorts, some of them cancelled, and pauses in between; to the end."""
    asked = 0
    while asked < REQUESTS or not loop.idle:
        if asked < REQUESTS and dice.random() < 0.5:
            loop.enqueue(_request(f"r{asked}", dice), lambda _: None, 0.0)
            asked += 1
        if loop._rows and dice.random() < 0.05:
            loop.cancel(dice.choice([*loop._rows]))
        loop.pause(dice.random() < (0.8 if loop._scheduler.paused else 0.05))
        loop.turn()
    loop.stop("over")


def _request(id: str, dice: random.Random) -> GenerationRequest:
    stem = random.Random(dice.randrange(3)).choices(range(3, 60), k=20)
    prompt = (*stem[: dice.randint(1, 20)], *dice.choices(range(3, 60), k=dice.randint(0, 20)))
    return GenerationRequest(
        id,
        prompt,
        dice.choice([1, 5, 20, 40]),
        dice.choice(SAMPLINGS),
        prompt_logprobs=dice.choice([None, None, 1]),
        form=FORM if dice.random() < 0.1 else None,
    )
