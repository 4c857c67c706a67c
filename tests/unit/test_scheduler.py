"""Admission order, slots, memory, who makes room, and the size of prefill slices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.scheduler import GROWTH, LOOKAHEAD, Candidate, PrefillBudget, Scheduler


def candidate(name: str, tokens: int = 10, left: int = 10) -> Candidate:
    return Candidate(name, tokens, left)


def scheduler(slots: int = 2, budget: int = 1000) -> Scheduler:
    """Every row costs a byte for each token of the longest."""
    return Scheduler(slots, budget, lambda rows, longest: rows * longest)


def admitted(plan: Scheduler, longest: int = 0) -> list[str]:
    return [admission.id for admission in plan.admit(longest)]


def test_requests_get_slots_in_order_and_a_freed_slot_is_reused() -> None:
    plan = scheduler()
    for name in "abc":
        plan.enqueue(candidate(name))
    assert [(a.id, a.slot) for a in plan.admit(0)] == [("a", 0), ("b", 1)]
    assert admitted(plan, 20) == []
    plan.release("a")
    assert [(a.id, a.slot) for a in plan.admit(20)] == [("c", 0)]
    assert plan.running == 2


def test_nobody_is_admitted_while_it_is_paused() -> None:
    plan = scheduler()
    plan.enqueue(candidate("a"))
    plan.paused = True
    assert admitted(plan) == []
    assert plan.blocked() is None
    plan.paused = False
    assert admitted(plan) == ["a"]


def test_a_dropped_request_is_never_admitted() -> None:
    plan = scheduler(slots=1)
    plan.enqueue(candidate("a"))
    plan.enqueue(candidate("b"))
    assert plan.drop_queued("a")
    assert not plan.drop_queued("a")
    assert admitted(plan) == ["b"]


def test_a_request_that_does_not_fit_yet_holds_the_line_until_memory_is_free() -> None:
    plan = scheduler(slots=4, budget=100)
    plan.enqueue(candidate("small", 10, 10))
    plan.enqueue(candidate("large", 40, 40))
    plan.enqueue(candidate("late", 5, 5))
    assert admitted(plan) == ["small"]
    blocked = plan.blocked()
    assert blocked is not None
    assert blocked.id == "large"
    plan.release("small")
    assert admitted(plan) == ["large"]
    assert admitted(plan, longest=80) == []


def test_rows_are_charged_as_if_each_were_the_longest() -> None:
    plan = scheduler(slots=4, budget=100)
    plan.enqueue(candidate("large", 20, 20))
    plan.enqueue(candidate("small", 1, 1))
    plan.enqueue(candidate("small too", 1, 1))
    assert admitted(plan) == ["large", "small"]


def test_an_answer_without_a_limit_does_not_keep_the_others_out() -> None:
    plan = scheduler(slots=4, budget=4 * (10 + GROWTH))
    for name in "abcd":
        plan.enqueue(candidate(name, 10, left=10**6))
    assert admitted(plan) == list("abcd")


def test_the_youngest_makes_room_and_is_the_next_to_come_back() -> None:
    plan = scheduler(slots=3, budget=300)
    for name in "abcd":
        plan.enqueue(candidate(name, 10, 10))
    assert admitted(plan) == ["a", "b", "c"]
    assert plan.overfull(100 - LOOKAHEAD) is None
    assert plan.overfull(101 - LOOKAHEAD) == "c"
    plan.put_back(candidate("c", 100, 50))
    assert plan.overfull(101) is None
    assert admitted(plan, longest=110) == []
    plan.release("a")
    plan.release("b")
    assert admitted(plan) == ["c", "d"]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(100, 400),
)
def test_every_request_that_fits_alone_is_served_in_order_and_memory_is_never_exceeded(
    sizes: list[tuple[int, int]], slots: int, budget: int
) -> None:
    plan = scheduler(slots, budget + LOOKAHEAD * slots)
    left = {str(n): more for n, (_, more) in enumerate(sizes)}
    tokens = {str(n): prompt for n, (prompt, _) in enumerate(sizes)}
    for name in left:
        plan.enqueue(Candidate(name, tokens[name], left[name]))
    running: list[str] = []
    ended: list[str] = []
    for _ in range(3000):
        while name := plan.overfull(max((tokens[r] for r in running), default=0)):
            assert name != running[0]
            plan.put_back(Candidate(name, tokens[name], left[name]))
            running.remove(name)
        expected = max((tokens[r] + left[r] for r in running), default=0)
        running += admitted(plan, expected)
        assert len(running) * max(tokens[r] for r in running) <= plan.budget
        for name in list(running):
            tokens[name], left[name] = tokens[name] + 1, left[name] - 1
            if not left[name]:
                plan.release(name)
                running.remove(name)
                ended.append(name)
        if len(ended) == len(sizes):
            return
    pytest.fail("somebody was never served")


def settled(step: float, per_token: float, fixed: float | None = None) -> PrefillBudget:
    """A budget that has seen many steps and slices of these costs, in milliseconds. fixed: of a
    slice, a step's cost unless said otherwise."""
    budget = PrefillBudget()
    for turn in range(300):
        budget.record_step(step)
        tokens = budget.tokens(turn % 3, 1 + turn % 4)
        budget.record_slice(tokens, (step if fixed is None else fixed) + per_token * tokens)
    return budget


def test_a_slice_beside_running_rows_costs_so_many_steps() -> None:
    tokens = settled(step=30.0, per_token=0.5).tokens(decoding=4, reading=1)
    assert 30 + 0.5 * tokens == pytest.approx(PrefillBudget.STEPS * 30, rel=0.05)


def test_a_slice_whose_fixed_part_is_dearer_than_a_step_still_uses_its_budget() -> None:
    tokens = settled(step=90.0, per_token=2.5, fixed=115.0).tokens(decoding=2, reading=1)
    assert 115 + 2.5 * tokens == pytest.approx(PrefillBudget.STEPS * 90, rel=0.05)


def test_many_waiting_rows_may_pause_few_running_ones_longer() -> None:
    budget = settled(step=30.0, per_token=0.5)
    few = budget.tokens(decoding=7, reading=1)
    many = budget.tokens(decoding=1, reading=7)
    assert many > 10 * few


def test_with_nothing_decoding_a_slice_is_as_long_as_the_idle_limit() -> None:
    tokens = settled(step=30.0, per_token=0.5).tokens(decoding=0, reading=1)
    assert tokens * 0.5 + 30.0 <= PrefillBudget.IDLE_MILLISECONDS * 1.02
    assert tokens * 0.5 + 30.0 >= PrefillBudget.IDLE_MILLISECONDS * 0.9


def test_slices_never_vanish_and_never_explode() -> None:
    slow, fast = settled(step=1.0, per_token=1000.0), settled(step=1e-3, per_token=1e-9)
    assert slow.tokens(1, 1) == PrefillBudget.SMALLEST
    assert fast.tokens(0, 1) == PrefillBudget.LARGEST
