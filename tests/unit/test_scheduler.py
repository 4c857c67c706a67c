"""Admission order, slots, memory, and the size of prefill slices."""

from __future__ import annotations

from engine.scheduler import PrefillBudget, Scheduler, SliceSize
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


def test_slices_settle_on_the_budget() -> None:
    size, fixed, each = SliceSize(start=32, largest=4096), 30.0, 1.0
    for _ in range(30):
        size.record(size.tokens, fixed + each * size.tokens, budget=100.0)
    assert 60 <= size.tokens <= 80  # 30 + 70 × 1 = 100


def test_a_slice_cut_short_by_the_prompts_end_never_enlarges_the_next() -> None:
    size = SliceSize(start=32, largest=4096)
    size.record(3, 1.0, budget=1000.0)
    assert size.tokens == 32


def test_slices_never_vanish() -> None:
    size = SliceSize(start=32, largest=4096)
    for _ in range(20):
        size.record(size.tokens, 10_000.0, budget=1.0)
    assert size.tokens == SliceSize.SMALLEST


def test_the_budget_follows_the_decode_step() -> None:
    budget = PrefillBudget()
    for _ in range(100):
        budget.record_step(10.0)
        budget.record_slice(budget.tokens(True), 0.5 * budget.tokens(True), True)
    assert 36 <= budget.tokens(True) <= 41  # 2 steps of 10 ms at 0.5 ms a token
