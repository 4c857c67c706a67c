"""Whatever is drafted, every row has the tokens it has without."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.cache.attention
import engine.drafters.figures
import engine.loop
from engine.batch import Batch
from engine.bus import Clock, EventBus
from engine.cache import RowCache, plan_for
from engine.drafters.base import Draft, Drafter
from engine.drafters.cost import VerifyCosts
from engine.drafters.ngram import NgramDrafter
from engine.drafters.rest import Rest
from engine.drafters.select import Selected, select
from engine.events import Speculation as SpeculationEvent
from engine.events import Step
from engine.loop import Loop
from engine.models.capabilities import Feature, stated
from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.speculation import MOST_UNREAD, Speculation
from engine.step import Verify
from engine.types import (
    Delta,
    EngineSettings,
    Finish,
    Form,
    GenerationRequest,
    SamplingParams,
    Update,
)
from engine.types import Speculate as Speculating
from tests.engine.stepped import Stepped
from tests.schedules import Job, check, jobs, run, solo
from tests.tiny_families import tiny_family

FAMILIES = ("llama", "qwen3", "qwen3_moe", "lfm2", "qwen3_next", "mamba2")
few = settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
schedules = st.lists(jobs, min_size=3, max_size=6)
LONG = Job((9, 8, 7), 120, SamplingParams(), 0, None)
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
    claims: float | None = None
    accepted: int = 0
    drafted: int = 0

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: RowCache) -> list[Draft]:
        return [self._draft(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def verified(self, row: Row, draft: Draft, accepted: int) -> None:
        self.drafted += len(draft)
        self.accepted += accepted

    def _draft(self, row: Row, limit: int) -> Draft:
        coming = self.answers[row.request.id][len(row.tokens) :]
        length = self.dice.randint(0, min(limit, len(coming)))
        tokens = [
            token if self.dice.random() < self.quality else token - 1 if token else 1
            for token in coming[:length]
        ]
        return Draft(tokens, [self.quality if self.claims is None else self.claims] * length)


class Answer:
    """A request answered on a loop of its own. eos: tokens that end it besides the model's."""

    def __init__(
        self, model: LoadedModel, request: GenerationRequest, eos: Collection[int] = ()
    ) -> None:
        self.request = request
        updates: list[Update] = []
        bus = EventBus(Clock(), 1, 9)
        loop = Loop(model, EngineSettings(1), bus, bus.clock, lambda _: None)
        loop._eos = {*loop._eos, *eos}
        row = loop.enqueue(request, updates.append, bus.clock.now())
        while not loop.idle:
            loop.turn()
        self.tokens = tuple(row.tokens)
        deltas = [update for update in updates if isinstance(update, Delta)]
        self.text = "".join(delta.text for delta in deltas)
        self.scored = [scored for delta in deltas for scored in delta.scored]
        self.finish = next(update for update in updates if isinstance(update, Finish))


def _finished(stepped: Stepped, prompt: tuple[int, ...]) -> Row:
    row = stepped.ask(prompt, 20)
    stepped.finish()
    return row


def report(progress: object) -> None:
    """Nobody looks."""


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
        monkeypatch.setattr(VerifyCosts, "record", lambda *_: None)  # no test depends on time
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


GREEDY = SamplingParams()
PROMPT = (9, 8, 7)


@pytest.mark.parametrize("name", ["llama", "lfm2"])
@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"stop": True},
        {"eos": True},
        {"eos": True, "min_tokens": 9},
        {"logprobs": 3},
        {"logprobs": 2, "stop": True, "sampling": SamplingParams(temperature=1.0, seed=5)},
        {"sampling": SamplingParams(frequency_penalty=0.8, repetition_penalty=1.3)},
        {"sampling": SamplingParams(logit_bias=((40, 5.0), (41, 4.0)))},
    ],
    ids=str,
)
def test_an_answer_that_ends_inside_a_block_ends_where_it_would_without(
    speculate: Speculate,
    family: Callable[..., LoadedModel],
    name: str,
    wish: dict[str, Any],
) -> None:
    model = family(name)
    plain = Answer(model, GenerationRequest("r0", PROMPT, 30, wish.get("sampling", GREEDY)))
    eos = {plain.tokens[7]} if wish.get("eos") else set()
    text = plain.text
    stop = (text[len(text) // 2 : len(text) // 2 + 2],) if wish.get("stop") else ()
    request = replace(
        plain.request,
        stop=stop,
        min_tokens=wish.get("min_tokens", 0),
        logprobs=wish.get("logprobs"),
    )
    expected = Answer(model, request, eos)
    guesses = Guesses({"r0": plain.tokens}, 1.0, random.Random(11))
    speculate(guesses, 6)
    drafted = Answer(model, request, eos)
    assert guesses.accepted > 0
    assert drafted.tokens == expected.tokens
    assert drafted.text == expected.text
    assert drafted.finish.reason == expected.finish.reason
    assert drafted.finish.usage == expected.finish.usage
    assert [s.picked.token for s in drafted.scored] == [s.picked.token for s in expected.scored]
    for mine, its in zip(drafted.scored, expected.scored, strict=True):
        assert mine.picked.logprob == pytest.approx(its.picked.logprob, abs=1e-3)
        assert [top.token for top in mine.top] == [top.token for top in its.top]


@pytest.mark.parametrize("name", ["llama", "qwen3_next", "gemma3_text"])
def test_the_next_turn_of_a_chat_reuses_what_drafts_were_checked_in(
    speculate: Speculate, family: Callable[..., LoadedModel], name: str
) -> None:
    model = family(name)
    first = solo(model, tuple(range(20, 60)), 20, GREEDY)
    later = (*range(20, 60), *first, 5, 6, 7)
    guesses = Guesses({"r1": first, "r2": solo(model, later, 20, GREEDY)}, 0.7)
    speculate(guesses, 6)
    stepped = Stepped(model)
    assert tuple(_finished(stepped, tuple(range(20, 60))).tokens) == first
    row = _finished(stepped, later)
    assert tuple(row.tokens) == guesses.answers["r2"]
    assert row.cached > 0
    assert guesses.accepted > 0


def test_a_row_with_a_grammar_is_not_drafted_for(
    speculate: Speculate, family: Callable[..., LoadedModel]
) -> None:
    model = family("llama")
    form = Form("%llguidance {}\nstart: /[a-z ]{10,30}/")
    request = GenerationRequest("r0", PROMPT, 30, form=form)
    expected = Answer(model, request)
    guesses = Guesses({"r0": expected.tokens}, 1.0)
    speculate(guesses, 6)
    assert Answer(model, request).tokens == expected.tokens
    assert guesses.drafted == 0


def test_a_drafter_that_is_never_right_is_asked_less_and_less(
    speculate: Speculate, family: Callable[..., LoadedModel]
) -> None:
    model = family("llama")
    speculate(wrong := Guesses(answers(model, [LONG]), 0.0), None)
    wrong.claims = 0.9
    rows = run(model, [LONG], slots=1)
    check(model, [LONG], rows)
    assert 0 < wrong.drafted < len(rows[0].tokens) // 2


def test_a_drafter_that_is_free_is_never_told_to_rest(
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Callable[..., LoadedModel]
) -> None:
    speculate(NgramDrafter(), None)
    monkeypatch.setattr(Rest, "weigh", lambda *_: pytest.fail("its time was weighed"))
    asked = []
    outlook = NgramDrafter.outlook
    monkeypatch.setattr(NgramDrafter, "outlook", lambda *all: asked.append(1) or outlook(*all))
    rows = run(family("llama"), [LONG], slots=1)
    assert len(asked) > len(rows[0].tokens) // 2


def test_wrong_drafts_do_not_pile_up_what_a_state_has_to_read_again(
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Callable[..., LoadedModel]
) -> None:
    model = family("lfm2")
    speculate(wrong := Guesses(answers(model, [LONG]), 0.0), 6)
    widths = []
    keep = Batch.keep

    def noted(batch: Batch, step: Verify, taken: Sequence[int]) -> None:
        widths.append(max(step.widths))
        keep(batch, step, taken)

    monkeypatch.setattr(Batch, "keep", noted)
    check(model, [LONG], run(model, [LONG], slots=1))
    assert wrong.drafted > 0
    assert max(widths) <= MOST_UNREAD + wrong.longest


def test_how_drafts_fare_is_told(
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Callable[..., LoadedModel]
) -> None:
    monkeypatch.setattr(engine.drafters.figures, "TELL_SECONDS", 0.0)
    model = family("llama")
    speculate(Guesses({"r1": solo(model, PROMPT, 20, GREEDY)}, 1.0), 6)
    stepped = Stepped(model)
    _finished(stepped, PROMPT)
    told = [event for event in stepped.events if isinstance(event, SpeculationEvent)][-1]
    assert (told.drafter, told.acceptance) == ("guesses", 1.0)
    assert told.tokens_per_forward > 1.5
    verified = [e for e in stepped.events if isinstance(e, Step) and e.kind == "verify"]
    assert sum(sum(event.tokens.values()) for event in verified) > len(verified)


@pytest.mark.parametrize(
    ("name", "why"), [("mamba", "lets padding into"), ("llama4", "has no batched form")]
)
def test_a_model_that_cannot_take_tokens_back_says_so(
    family: Callable[..., LoadedModel], name: str, why: str
) -> None:
    model = family(name)
    for asked, refused in ((Speculating.NGRAM, True), (Speculating.AUTO, False)):
        said = select(plan_for(model.model), model, EngineSettings(speculate=asked), report).stated
        assert (said.requested, said.effective, said.refused) == (asked, "off", refused)
        assert why in said.why


def test_auto_goes_on_without_a_trained_drafter_and_says_so(
    family: Callable[..., LoadedModel],
) -> None:
    model = family("llama")
    plan = plan_for(model.model)
    auto = select(plan, model, EngineSettings(speculate=Speculating.AUTO), report)
    assert auto.drafter is not None
    assert auto.drafter.name == "ngram"
    assert "none is known for llama" in auto.stated.why
    alone = select(plan, model, EngineSettings(speculate=Speculating.DSPARK), report)
    assert alone.drafter is None
    assert alone.stated.refused


def test_a_drafter_nobody_asks_to_guess_is_no_secret(
    family: Callable[..., LoadedModel],
) -> None:
    model = family("llama")
    plan = plan_for(model.model)
    for asked, effective, refused in (
        (Speculating.OFF, "off", True),
        (Speculating.NGRAM, "ngram", False),
    ):
        settings = EngineSettings(speculate=asked, drafter="folder")
        said = select(plan, model, settings, report).stated
        assert (said.effective, said.refused) == (effective, refused)
        assert "only with --speculate dspark" in said.why


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
