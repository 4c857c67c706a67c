"""Whatever is drafted, every row has the tokens it has without."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.cache.attention
import engine.loop
from engine.cache import BatchCache
from engine.drafters.base import Draft, Drafter
from engine.drafters.cost import VerifyCosts
from engine.drafters.ngram import NgramDrafter
from engine.drafters.select import Selected
from engine.models.capabilities import Feature, stated
from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.speculation import Speculation
from engine.types import SamplingParams
from tests.schedules import Job, check, jobs, run, solo
from tests.tiny_families import tiny_family

FAMILIES = ("llama", "qwen3", "qwen3_moe", "lfm2", "qwen3_next", "mamba2")
few = settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
schedules = st.lists(jobs, min_size=3, max_size=6)
Speculate = Callable[[Drafter, int | None], None]


@dataclass
class Guesses(Drafter):
    """Proposes a row's own tokens, each wrong now and then. quality: 1 is an oracle, 0 is always
    wrong. answers: what rows get without speculation, by request id."""

    answers: dict[str, tuple[int, ...]]
    quality: float
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    name: str = "guesses"
    longest: int = 6
    accepted: int = 0
    drafted: int = 0

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: BatchCache) -> list[Draft]:
        return [self._draft(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def verified(self, row: Row, draft: Draft, accepted: int) -> None:
        self.drafted += len(draft)
        self.accepted += accepted

    def _draft(self, row: Row, limit: int) -> Draft:
        coming = self.answers[row.request.id][len(row.tokens) :]
        length = self.dice.randint(0, min(limit, len(coming)))
        tokens = [
            token if self.dice.random() < self.quality else token + 1 for token in coming[:length]
        ]
        return Draft(tokens, [self.quality] * length)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedModel]:
    """Load a tiny model of a family, quantizing its K and V: `family("lfm2", 8)`."""

    @cache
    def loaded(name: str, kv_bits: int | None = None) -> LoadedModel:
        overrides = {"head_dim": 64, "hidden_size": 256} if kv_bits else {}
        folder = tiny_family(tmp_path_factory.mktemp(name), name, **overrides)
        return load(folder, name, kv_bits=kv_bits)

    return loaded


@pytest.fixture
def speculate(monkeypatch: pytest.MonkeyPatch) -> Speculate:
    """Have the next loops draft with this drafter, so many tokens or as many as pay."""

    def prepare(drafter: Drafter, length: int | None) -> None:
        selected = Selected(drafter, stated(Feature.SPECULATION, "test", drafter.name, ""))
        costs = VerifyCosts({1: {1: 1.0, 8: 1.5}, 4: {1: 1.0, 8: 3.0}})
        monkeypatch.setattr(engine.loop, "select", lambda *_: selected)
        monkeypatch.setattr(engine.loop, "begin", lambda *_: Speculation(drafter, costs, length))
        monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
        monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 16)

    return prepare


def answers(model: LoadedModel, schedule: list[Job]) -> dict[str, tuple[int, ...]]:
    return {
        f"r{index}": solo(model, job.prompt, job.max_tokens, job.sampling)
        for index, job in enumerate(schedule)
    }


@pytest.mark.parametrize("name", FAMILIES)
@few
@given(
    schedule=schedules,
    quality=st.sampled_from([1.0, 0.7, 0.3, 0.0]),
    length=st.sampled_from([1, 3, 6, None]),
)
def test_any_schedule_gives_each_row_its_tokens_however_good_the_drafts(
    speculate: Speculate,
    family: Callable[..., LoadedModel],
    name: str,
    schedule: list[Job],
    quality: float,
    length: int | None,
) -> None:
    model = family(name)
    speculate(Guesses(answers(model, schedule), quality), length)
    check(model, schedule, run(model, schedule, slots=3))


@pytest.mark.parametrize("name", ["gemma3_text", "deepseek_v3"])
@few
@given(schedule=schedules)
def test_windows_and_latent_attention_take_drafts_back(
    speculate: Speculate, family: Callable[..., LoadedModel], name: str, schedule: list[Job]
) -> None:
    model = family(name)
    speculate(Guesses(answers(model, schedule), 0.6), 5)
    check(model, schedule, run(model, schedule, slots=3))


@few
@given(schedule=schedules)
def test_quantized_kv_takes_drafts_back(
    speculate: Speculate, family: Callable[..., LoadedModel], schedule: list[Job]
) -> None:
    model = family("llama", 8)
    speculate(Guesses(answers(model, schedule), 0.6), 4)
    check(model, schedule, run(model, schedule, slots=3))


@pytest.mark.parametrize("name", ["llama", "qwen3_next"])
def test_an_oracle_saves_forwards_and_an_adversary_is_found_out(
    speculate: Speculate, family: Callable[..., LoadedModel], name: str
) -> None:
    model = family(name)
    schedule = [Job((9, 8, 7 + n), 24, SamplingParams(), 0, None) for n in range(3)]
    right = Guesses(answers(model, schedule), 1.0)
    speculate(right, 6)
    check(model, schedule, run(model, schedule, slots=3))
    assert right.accepted == right.drafted > 0

    wrong = Guesses(answers(model, schedule), 0.0)
    speculate(wrong, 6)
    check(model, schedule, run(model, schedule, slots=3))
    assert wrong.accepted == 0 < wrong.drafted


@few
@given(schedule=schedules, length=st.sampled_from([2, 8, None]))
def test_looked_up_drafts_change_nothing(
    speculate: Speculate,
    family: Callable[..., LoadedModel],
    schedule: list[Job],
    length: int | None,
) -> None:
    model = family("qwen3")
    speculate(NgramDrafter(), length)
    check(model, schedule, run(model, schedule, slots=3))
