"""How long a draft is, what it is expected to bring, and what a text says of its own future."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui.engines.worker_settings import WorkerSettings
from engine.drafters.base import NONE, Draft
from engine.drafters.cost import CostsByDepth, VerifyCosts, choose
from engine.drafters.estimate import Estimate, Promises
from engine.drafters.figures import Figures
from engine.drafters.measure import Measured, verify_costs
from engine.drafters.ngram import FollowedText
from engine.drafters.rest import Rest

CHEAP = {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}
ALL = [1.0]
DEAR = {1: 1.0, 2: 1.9, 4: 3.6, 8: 7.0}


def sure(length: int, chance: float = 0.9) -> Draft:
    return Draft(range(length), [chance] * length)


def test_a_text_that_repeats_is_followed_until_it_differs() -> None:
    text = FollowedText([1, 2, 3, 4, 5, 6, 9, 1, 2, 3])
    assert text.ahead(3) == [4, 5, 6]
    assert text.agreeing == 3
    text.extend([4, 5])
    assert (text.ahead(2), text.agreeing) == ([6, 9], 5)
    text.extend([7])
    assert text.ahead(4) == []


def test_the_latest_place_is_followed() -> None:
    assert FollowedText([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3]).ahead(1) == [5]


def test_two_tokens_that_agree_are_no_place() -> None:
    assert FollowedText([1, 2, 8, 9, 1, 2]).ahead(5) == []


def test_a_loop_is_foreseen_beyond_its_end() -> None:
    assert FollowedText([7, 8, 7, 8, 7, 8]).ahead(5) == [7, 8, 7, 8, 7]


def test_every_foreseen_token_is_learnt_from() -> None:
    seen: list[tuple[int, bool]] = []
    text = FollowedText([1, 2, 3, 4, 5, 1, 2, 3])
    text.extend([4, 6], lambda agreeing, right: seen.append((agreeing, right)))
    assert seen == [(3, True), (4, False)]


def test_a_cheap_verify_takes_a_long_draft_and_a_dear_one_none() -> None:
    cheap = choose(VerifyCosts({1: CHEAP}), [sure(7)], [1], ALL)
    assert (cheap.length, cheap.width, cheap.refused) == (7, 8, None)
    dear = choose(VerifyCosts({1: DEAR}), [sure(7)], [1], ALL)
    assert (dear.length, dear.width) == (0, 1)
    assert dear.refused == (2, 1.9)


def test_a_draft_ends_where_its_tokens_get_unlikely() -> None:
    draft = Draft(range(6), [0.95, 0.9, 0.9, 0.05, 0.05, 0.05])
    assert choose(VerifyCosts({1: CHEAP}), [draft], [1], ALL).length == 3


def test_one_sure_row_does_not_make_seven_wait() -> None:
    costs = VerifyCosts({8: {1: 1.0, 2: 1.5, 8: 3.0}})
    assert choose(costs, [sure(7), *[NONE] * 7], [1] * 8, ALL * 8).length == 0
    assert choose(costs, [sure(7)] * 8, [1] * 8, ALL * 8).length > 0


def test_promises_that_did_not_come_true_are_believed_less() -> None:
    costs = VerifyCosts({1: {1: 1.0, 2: 1.4, 8: 2.0}})
    assert choose(costs, [sure(4, 0.8)], [1], ALL).length > 0
    assert choose(costs, [sure(4, 0.8)], [1], [0.2]).length == 0


def test_tokens_still_to_be_read_are_part_of_the_price() -> None:
    costs = VerifyCosts({1: {1: 1.0, 4: 1.0, 5: 6.0, 8: 7.0}})
    assert choose(costs, [sure(3)], [1], ALL).length == 3
    assert choose(costs, [sure(3)], [4], ALL).length == 0


def test_costs_are_read_between_and_beyond_what_was_measured() -> None:
    costs = VerifyCosts({2: {1: 1.0, 3: 2.0}, 4: {1: 1.0, 3: 3.0}})
    assert costs.ratio(2, 2) == pytest.approx(1.5)
    assert costs.ratio(3, 3) == pytest.approx(2.5)
    assert costs.ratio(2, 5) == pytest.approx(3.0)
    assert costs.ratio(1, 3) == costs.ratio(2, 3)
    assert costs.ratio(9, 3) == costs.ratio(4, 3)


def test_costs_follow_what_steps_take() -> None:
    costs = VerifyCosts({2: {1: 1.0, 4: 1.5}}, {2: 10.0})
    for _ in range(60):
        costs.record(2, 4, 30.0)
    assert costs.ratio(2, 4) == pytest.approx(3.0, rel=0.05)
    for _ in range(60):  # everything twice as slow: no ratio changes
        costs.record(2, 1, 20.0)
    costs.record(2, 4, 60.0)
    assert costs.ratio(2, 4) == pytest.approx(3.0, rel=0.05)


def test_a_cost_that_keeps_drafts_away_is_tried_again_some_day() -> None:
    costs = VerifyCosts({8: {1: 1.0, 2: 2.4}}, {8: 50.0})
    assert choose(costs, [sure(1)] * 8, [1] * 8, ALL * 8).length == 0
    waited = 0
    while not choose(costs, [sure(1)] * 8, [1] * 8, ALL * 8).length:
        costs.doubt(8, 2)
        waited += 1
    assert waited > 100
    costs.record(8, 2, 120.0)
    assert choose(costs, [sure(1)] * 8, [1] * 8, ALL * 8).length == 0


def test_a_new_number_of_rows_starts_from_what_is_known_of_others() -> None:
    costs = VerifyCosts({2: {1: 1.0, 2: 1.2, 8: 2.0}, 4: {1: 1.0, 2: 1.6, 8: 4.0}}, {3: 10.0})
    costs.record(3, 2, 14.0)
    assert costs.ratio(3, 8) == pytest.approx(3.0)


def test_long_rows_have_costs_of_their_own_which_begin_as_the_nearest_known() -> None:
    costs = CostsByDepth(VerifyCosts({1: {1: 1.0, 4: 1.1}}, {1: 10.0}))
    assert costs.at(1) is costs.at(255)
    deep = costs.at(1000)
    assert deep is costs.at(513) is costs.at(1023)
    for _ in range(20):
        deep.record(1, 4, 18.0)
    assert costs.at(2000).ratio(1, 4) == pytest.approx(1.8, rel=0.05)
    assert costs.at(200).ratio(1, 4) == 1.1


def test_an_estimate_leaves_its_prior_for_what_it_sees() -> None:
    estimate = Estimate(0.5)
    for _ in range(300):
        estimate.add(1)
    assert estimate.value > 0.95


def test_broken_promises_are_forgotten_slowly_and_kept_ones_are_believed() -> None:
    promises = Promises()
    assert promises.trust() == 1.0
    assert promises.trust(0.5) == 0.5
    for _ in range(10):
        promises.add(3.0, 0.0)
    broken = promises.trust()
    assert broken < 0.2
    for _ in range(100):
        promises.rest()
    assert broken < promises.trust() < 0.3
    for _ in range(30):
        promises.add(3.0, 3.0)
    assert promises.trust() > 0.8


@pytest.mark.parametrize(("spent", "rests"), [(0.001, False), (0.5, True)])
def test_a_drafter_rests_that_takes_longer_than_it_saves(spent: float, rests: bool) -> None:
    choice = choose(VerifyCosts({1: CHEAP}), [sure(1, 0.2)], [1], ALL)
    assert choice.length == 1
    rest, asked = Rest(), 0
    for _ in range(1000):
        if rest:
            rest.step()
        else:
            rest.weigh(choice, spent)
            asked += 1
    assert (asked < 100) is rests
    assert asked > 10


@pytest.mark.parametrize(
    ("drafts", "costs", "why"),
    [
        ([sure(3)], CHEAP, ""),
        ([NONE], CHEAP, "nothing to propose"),
        ([sure(3)], DEAR, "verify 2 wide costs 1.9x at 1 row"),
    ],
)
def test_figures_say_why_there_is_no_draft(
    drafts: list[Draft], costs: dict[int, float], why: str
) -> None:
    figures = Figures("ngram")
    figures.forward(1, 4)
    figures.checked(6, 3)
    choice = choose(VerifyCosts({1: costs}), drafts, [1], ALL)
    told = figures.news(choice, 1, resting=False)
    assert told is not None
    assert (told.length == 0, told.why) == (why != "", why)
    assert (told.acceptance, told.tokens_per_forward) == (0.5, 4.0)
    assert figures.news(choice, 1, resting=False) is None


@pytest.mark.parametrize("steady", [True, False])
def test_what_is_measured_is_kept_unless_the_machine_was_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steady: bool
) -> None:
    from engine.cache import CachePlan
    from engine.drafters import measure

    runs = []

    def measured(*_: object) -> Measured:
        runs.append(1)
        return Measured(VerifyCosts({1: CHEAP, 8: DEAR}, {1: 20.0, 8: 60.0}), steady)

    monkeypatch.setattr(measure, "measure", measured)
    monkeypatch.setattr(measure.platformdirs, "user_cache_path", lambda _: tmp_path)
    plan = CachePlan(model=None)
    first = verify_costs(plan, 8, "one", lambda *_: None)
    assert verify_costs(plan, 8, "one", lambda *_: None) == first
    if not steady:
        assert len(runs) == 2
        return
    assert len(runs) == 1
    verify_costs(plan, 8, "another", lambda *_: None)
    assert len(runs) == 2
    for file in (tmp_path / "verify").iterdir():
        file.write_text('{"ratios": 3}')
    assert verify_costs(plan, 8, "one", lambda *_: None) == first
    assert len(runs) == 3


def test_settings_become_the_workers_command_line() -> None:
    assert WorkerSettings().drafting_options == []
    assert WorkerSettings(speculate="auto").drafting_options == ["--speculate", "auto"]
    settings = WorkerSettings("some-model", 2, "fp32", "dspark", "some/where", 8, 0.25, 4)
    assert settings.drafting_options == [
        *("--speculate", "dspark"),
        *("--drafter", "some/where"),
        *("--drafter-bits", "8"),
        *("--confidence", "0.25"),
        *("--max-draft", "4"),
    ]
