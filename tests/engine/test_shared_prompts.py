"""Equal prompts that wait together are read once, and nobody can tell from the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.bus import Clock, EventBus
from engine.loop import Loop
from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.types import EngineSettings, GenerationRequest, SamplingParams

PROMPT = tuple(range(3, 43))
TO_READ = len(PROMPT) - 1
"""The last prompt token is the first decode step's input."""
SLICE = 8


class Played:
    """A loop without a thread, and the prompt tokens it has read."""

    def __init__(self, model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = 0
        self._clock = Clock()
        bus = EventBus(self._clock, 8, queue_limit=100)
        self.loop = Loop(model, EngineSettings(max_batch=8), bus, self._clock, lambda _: None)
        monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: SLICE)
        monkeypatch.setattr(PrefillBudget, "record_slice", self._count)

    def ask(self, id: str, prompt: tuple[int, ...] = PROMPT, seed: int = 0) -> Row:
        sampling = SamplingParams(temperature=1.1, seed=seed)
        request = GenerationRequest(id, prompt, 6, sampling)
        return self.loop.enqueue(request, lambda _: None, self._clock.now())

    def finish(self) -> None:
        for _ in range(200):
            if self.loop.idle:
                return
            self.loop.turn()
        pytest.fail("the loop makes no progress")

    def _count(self, tokens: int, milliseconds: float) -> None:
        self.read += tokens


Play = Callable[[], Played]


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


@pytest.fixture
def play(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Play:
    return lambda: Played(model, monkeypatch)


def alone(play: Play, seed: int) -> list[int]:
    played = play()
    row = played.ask("alone", seed=seed)
    played.finish()
    return row.tokens


def test_one_reading_serves_all_who_wait_for_it(play: Play) -> None:
    played = play()
    rows = [played.ask(f"r{seed}", seed=seed) for seed in range(5)]
    other = played.ask("other", prompt=PROMPT[:20])
    played.finish()
    assert played.read == TO_READ
    assert [row.cached for row in rows] == [0] + [TO_READ] * 4
    assert other.cached == 19
    assert [row.tokens for row in rows] == [alone(play, seed) for seed in range(5)]


def test_a_row_joins_a_reading_that_has_begun(play: Play) -> None:
    played = play()
    first = played.ask("first", seed=1)
    played.loop.turn()
    late = played.ask("late", seed=2)
    played.finish()
    assert played.read == TO_READ
    assert first.tokens == alone(play, 1)
    assert late.tokens == alone(play, 2)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_the_reading_goes_on_for_those_who_stay(play: Play, turns: int) -> None:
    played = play()
    rows = [played.ask(f"r{seed}", seed=seed) for seed in range(3)]
    for _ in range(turns):
        played.loop.turn()
    played.loop.cancel("r0")
    played.finish()
    assert played.read == TO_READ
    assert rows[1].tokens == alone(play, 1)
    assert rows[2].tokens == alone(play, 2)
    assert rows[1].cached == 0
    assert rows[2].cached == TO_READ


def test_a_reading_nobody_waits_for_ends(play: Play) -> None:
    played = play()
    rows = [played.ask(f"r{seed}") for seed in range(2)]
    played.loop.turn()
    for row in rows:
        played.loop.cancel(row.request.id)
    played.finish()
    assert played.read == SLICE
    after = played.ask("after", seed=3)
    played.finish()
    assert after.tokens == alone(play, 3)
