"""Whatever is drafted, every row has the tokens it has without."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.drafters.figures
from engine.batch import Batch
from engine.cache import plan_for
from engine.drafters.ngram import NgramDrafter
from engine.drafters.rest import Rest
from engine.drafters.select import select
from engine.events import Speculation as SpeculationEvent
from engine.events import Step
from engine.speculation import MOST_UNREAD
from engine.step import Verify
from engine.types import EngineSettings, Form, GenerationRequest, SamplingParams
from engine.types import Speculate as Speculating
from tests.engine.guesses import (
    GREEDY,
    PROMPT,
    Answer,
    Family,
    Guesses,
    Speculate,
    answers,
    draft_with,
    family_in,
)
from tests.engine.stepped import Stepped
from tests.schedules import Job, check, jobs, run, solo

FAMILIES = ("llama", "qwen3", "qwen3_moe", "lfm2", "qwen3_next", "mamba2")
few = settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
schedules = st.lists(jobs, min_size=3, max_size=6)
LONG = Job((9, 8, 7), 120, SamplingParams(), 0, None)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return family_in(tmp_path_factory)


@pytest.fixture
def speculate(monkeypatch: pytest.MonkeyPatch) -> Speculate:
    return partial(draft_with, monkeypatch)


def report(progress: object) -> None:
    """Nobody looks."""


@pytest.mark.parametrize("name", FAMILIES)
@few
@given(
    schedule=schedules,
    quality=st.sampled_from([1.0, 0.7, 0.3, 0.0]),
    length=st.sampled_from([1, 3, 6, None]),
)
def test_any_schedule_gives_each_row_its_tokens_however_good_the_drafts(
    speculate: Speculate,
    family: Family,
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
    speculate: Speculate, family: Family, name: str, schedule: list[Job]
) -> None:
    model = family(name)
    speculate(Guesses(answers(model, schedule), 0.6), 5)
    check(model, schedule, run(model, schedule, slots=3))


@few
@given(schedule=schedules)
def test_quantized_kv_takes_drafts_back(
    speculate: Speculate, family: Family, schedule: list[Job]
) -> None:
    model = family("llama", 8)
    speculate(Guesses(answers(model, schedule), 0.6), 4)
    check(model, schedule, run(model, schedule, slots=3))


def test_a_row_with_a_grammar_is_not_drafted_for(speculate: Speculate, family: Family) -> None:
    model = family("llama")
    form = Form("%llguidance {}\nstart: /[a-z ]{10,30}/")
    request = GenerationRequest("r0", PROMPT, 30, form=form)
    expected = Answer(model, request)
    guesses = Guesses({"r0": expected.tokens}, 1.0)
    speculate(guesses, 6)
    assert Answer(model, request).tokens == expected.tokens
    assert guesses.drafted == 0


def test_a_drafter_that_is_never_right_is_asked_less_and_less(
    speculate: Speculate, family: Family
) -> None:
    model = family("llama")
    speculate(wrong := Guesses(answers(model, [LONG]), 0.0), None)
    wrong.claims = 0.9
    rows = run(model, [LONG], slots=1)
    check(model, [LONG], rows)
    assert 0 < wrong.drafted < len(rows[0].tokens) // 2


def test_a_drafter_that_is_free_is_never_told_to_rest(
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Family
) -> None:
    speculate(NgramDrafter(), None)
    monkeypatch.setattr(Rest, "weigh", lambda *_: pytest.fail("its time was weighed"))
    asked = []
    outlook = NgramDrafter.outlook
    monkeypatch.setattr(NgramDrafter, "outlook", lambda *all: asked.append(1) or outlook(*all))
    rows = run(family("llama"), [LONG], slots=1)
    assert len(asked) > len(rows[0].tokens) // 2


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(0.8, top_p=0.9)])
def test_a_rest_ends_whether_or_not_steps_overlap(
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Family, sampling: SamplingParams
) -> None:
    model, job = family("llama"), Job(PROMPT, 120, sampling, 0, None)
    speculate(guesses := Guesses(answers(model, [job]), 1.0), None)
    monkeypatch.setattr(Rest, "weigh", lambda rest, *_: setattr(rest, "_steps", 10))
    asked = []
    propose = guesses.propose
    monkeypatch.setattr(guesses, "propose", lambda *all: asked.append(1) or propose(*all))
    check(model, [job], run(model, [job], slots=1))
    assert len(asked) > 3


def test_nothing_is_kept_of_a_row_that_ends_in_the_queue_it_was_put_back_into(
    speculate: Speculate, family: Family
) -> None:
    drafter = NgramDrafter()
    speculate(drafter, 4)
    stepped = Stepped(family("llama"), slots=1)
    row = stepped.ask(PROMPT, 60)
    stepped.turn(5)
    assert drafter._texts
    stepped.loop._settle()
    stepped.loop._put_back(row)
    stepped.loop.cancel(row.request.id)
    assert row.finished
    assert not drafter._texts


def test_wrong_drafts_do_not_pile_up_what_a_state_has_to_read_again(
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Family
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
    monkeypatch: pytest.MonkeyPatch, speculate: Speculate, family: Family
) -> None:
    monkeypatch.setattr(engine.drafters.figures, "TELL_SECONDS", 0.0)
    model = family("llama")
    speculate(Guesses({"r1": solo(model, PROMPT, 20, GREEDY)}, 1.0), 6)
    stepped = Stepped(model)
    stepped.ask(PROMPT, 20)
    stepped.finish()
    told = [event for event in stepped.events if isinstance(event, SpeculationEvent)][-1]
    assert (told.drafter, told.acceptance) == ("guesses", 1.0)
    assert told.tokens_per_forward > 1.5
    verified = [e for e in stepped.events if isinstance(e, Step) and e.kind == "verify"]
    assert sum(sum(event.tokens.values()) for event in verified) > len(verified)


@pytest.mark.parametrize(
    ("name", "why"), [("mamba", "lets padding into"), ("llama4", "has no batched form")]
)
def test_a_model_that_cannot_take_tokens_back_says_so(family: Family, name: str, why: str) -> None:
    model = family(name)
    for asked, refused in ((Speculating.NGRAM, True), (Speculating.AUTO, False)):
        said = select(plan_for(model.model), model, EngineSettings(speculate=asked), report).stated
        assert (said.requested, said.effective, said.refused) == (asked, "off", refused)
        assert why in said.why


def test_auto_goes_on_without_a_trained_drafter_and_says_so(
    family: Family,
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
    family: Family,
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
    family: Family,
    schedule: list[Job],
    length: int | None,
) -> None:
    model = family("qwen3")
    speculate(NgramDrafter(), length)
    check(model, schedule, run(model, schedule, slots=3))
