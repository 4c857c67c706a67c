"""Admission order, slots, memory, and the size of prefill slices."""

from __future__ import annotations

import pytest

from engine.scheduler import PrefillBudget, Scheduler
from engine.types import GenerationRequest


def request(name: str, prompt: int = 10, max_tokens: int = 10) -> GenerationRequest:
    return GenerationRequest(name, tuple(range(prompt)), max_tokens)


def scheduler(slots: int = 2, kv_budget: int = 1000) -> Scheduler:
    return Scheduler(slots, kv_budget)


def test_requests_get_slots_in_order_and_a_freed_slot_is_reused() -> None:
    plan = scheduler()
    for name in "abc":
        plan.enqueue(request(name))
    assert [(a.request.id, a.slot) for a in plan.admit()] == [("a", 0), ("b", 1)]
    assert plan.admit() == []
    plan.release("a")
    assert [(a.request.id, a.slot) for a in plan.admit()] == [("c", 0)]
    assert plan.running == 2


def test_nobody_is_admitted_while_it_is_paused() -> None:
    plan = scheduler()
    plan.enqueue(request("a"))
    plan.paused = True
    assert plan.admit() == []
    assert plan.blocked() is None
    plan.paused = False
    assert [a.request.id for a in plan.admit()] == ["a"]


def test_a_dropped_request_is_never_admitted() -> None:
    plan = scheduler(slots=1)
    plan.enqueue(request("a"))
    plan.enqueue(request("b"))
    assert plan.drop_queued("a")
    assert not plan.drop_queued("a")
    assert [a.request.id for a in plan.admit()] == ["b"]


def test_a_request_that_does_not_fit_yet_holds_the_line_until_memory_is_free() -> None:
    plan = scheduler(slots=4, kv_budget=100)
    plan.enqueue(request("small", 10, 10))
    plan.enqueue(request("large", 40, 40))
    plan.enqueue(request("late", 5, 5))
    assert [a.request.id for a in plan.admit()] == ["small"]
    blocked = plan.blocked()
    assert blocked is not None
    assert blocked.id == "large"
    plan.release("small")
    assert [a.request.id for a in plan.admit()] == ["large"]
    assert plan.admit() == []


def test_rows_are_charged_the_longest_reservation() -> None:
    plan = scheduler(slots=4, kv_budget=100)
    plan.enqueue(request("large", 20, 20))
    plan.enqueue(request("small", 1, 1))
    plan.enqueue(request("small too", 1, 1))
    assert [a.request.id for a in plan.admit()] == ["large", "small"]


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
