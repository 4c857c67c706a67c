"""What prompts in flight have in common is read once; nobody can tell from the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.types import SamplingParams
from tests.engine.stepped import Stepped

PROMPT = tuple(range(3, 43))
TO_READ = len(PROMPT) - 1
"""The last prompt token is the first decode step's input."""
SLICE = 8


class Played(Stepped):
    def ask_seeded(self, seed: int = 0, prompt: tuple[int, ...] = PROMPT) -> Row:
        return self.ask(prompt, sampling=SamplingParams(temperature=1.1, seed=seed))


Play = Callable[[], Played]


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


@pytest.fixture
def play(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: SLICE)
    return lambda: Played(model, prefix_cache=0)


def alone(play: Play, seed: int) -> list[int]:
    played = play()
    row = played.ask_seeded(seed)
    played.finish()
    return row.tokens


def test_one_reading_serves_all_who_wait_for_it(play: Play) -> None:
    played = play()
    rows = [played.ask_seeded(seed) for seed in range(5)]
    other = played.ask_seeded(prompt=PROMPT[:20])
    played.finish()
    assert played.read == TO_READ
    assert [row.cached for row in rows] == [0] + [TO_READ] * 4
    assert other.cached == 19
    assert [row.tokens for row in rows] == [alone(play, seed) for seed in range(5)]


def test_a_row_joins_a_reading_that_has_begun(play: Play) -> None:
    played = play()
    first = played.ask_seeded(1)
    played.turn()
    late = played.ask_seeded(2)
    played.finish()
    assert played.read == TO_READ
    assert first.tokens == alone(play, 1)
    assert late.tokens == alone(play, 2)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_the_reading_goes_on_for_those_who_stay(play: Play, turns: int) -> None:
    played = play()
    rows = [played.ask_seeded(seed) for seed in range(3)]
    for _ in range(turns):
        played.turn()
    played.loop.cancel(rows[0].request.id)
    played.finish()
    assert played.read == TO_READ
    assert rows[1].tokens == alone(play, 1)
    assert rows[2].tokens == alone(play, 2)
    assert rows[1].cached == 0
    assert rows[2].cached == TO_READ


def test_a_reading_nobody_waits_for_ends(play: Play) -> None:
    played = play()
    rows = [played.ask_seeded(seed) for seed in range(2)]
    played.turn()
    for row in rows:
        played.loop.cancel(row.request.id)
    played.finish()
    assert played.read == SLICE
    after = played.ask_seeded(3)
    played.finish()
    assert after.tokens == alone(play, 3)


def test_what_prompts_begin_with_is_read_once(play: Play) -> None:
    played = play()
    stem = PROMPT[:32]
    prompts = [(*stem, 100 + n, 101, 102, 7) for n in range(4)] + [(*stem, 100, 101, 9, 9)]
    rows = [played.ask_seeded(n, prompt) for n, prompt in enumerate(prompts)]
    played.finish()
    assert played.read == 32 + 5 * 3
    assert [row.cached for row in rows] == [0, 32, 32, 32, 32]
    for n, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        lone = play()
        alone_ = lone.ask_seeded(n, prompt)
        lone.finish()
        assert row.tokens == alone_.tokens


def test_a_row_copies_what_a_running_one_has_read(play: Play) -> None:
    played = play()
    first = played.ask_seeded(1)
    while first.first_token is None:
        played.turn()
    before = played.read
    second = played.ask_seeded(2, (*PROMPT[:30], 9, 9, 9))
    played.finish()
    assert played.read - before == 2
    assert second.cached == 30
    assert first.tokens == alone(play, 1)


def test_whose_sake_it_was_read_for_passes_to_an_heir(play: Play) -> None:
    played = play()
    first = played.ask_seeded(1)
    heir = played.ask_seeded(2, (*PROMPT[:30], 9, 9, 9))
    later = played.ask_seeded(3, (*PROMPT[:30], 8, 8))
    played.turn()
    assert (first.cached, heir.cached, later.cached) == (0, 30, 30)
    played.loop.cancel(first.request.id)
    assert sorted((heir.cached, later.cached)) == [0, 30]
    played.finish()
    assert played.read == 30 + 2 * 2
    assert len(heir.tokens) == len(later.tokens) == 6
