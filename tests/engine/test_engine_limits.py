"""Cancelled, held, refused, ended: what was taken is given back, and an engine at rest sleeps."""

from __future__ import annotations

import threading
import time
from functools import partial

import mlx.core as mx
import pytest

from engine.events import (
    Admitted,
    EngineStatus,
    Finished,
    Paused,
    Prefill,
    Queued,
    Step,
    Waiting,
    Warning,
)
from engine.loop import Loop
from engine.scheduler import PrefillBudget
from engine.types import (
    ContextLengthError,
    EngineUnavailableError,
    FinishReason,
    QueueFullError,
)
from tests.engine.conftest import Client, Harness, Start, info_of


def test_cancel_while_queued_never_reaches_prefill(start: Start) -> None:
    harness = start(max_batch=1)
    harness.at(lambda: harness.gained("r1"), lambda: harness.engine.cancel("r2"))
    with harness.held():
        harness.ask(max_tokens=400)
        queued = harness.ask(prompt=tuple(range(3, 30)))
        later = harness.ask()
    assert queued.wait().reason is FinishReason.CANCELLED
    assert later.wait().reason is FinishReason.LENGTH
    seen = {type(e) for e in harness.events if getattr(e, "request", None) == "r2"}
    assert seen == {Queued, Finished}
    assert not harness.of(Warning)


def test_cancel_while_the_prompt_is_read(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 2)
    harness = start(max_batch=2)
    harness.at(lambda: harness.of(Prefill), lambda: harness.engine.cancel("r1"))
    finish = harness.ask(prompt=tuple(range(3, 300)), max_tokens=5).wait()
    assert finish.reason is FinishReason.CANCELLED
    assert finish.usage.completion_tokens == 0
    assert harness.ask().wait().reason is FinishReason.LENGTH


def test_cancel_while_decoding_keeps_the_text_and_frees_the_slot(start: Start) -> None:
    harness = start(max_batch=1)
    harness.at(lambda: harness.gained("r1") >= 7, lambda: harness.engine.cancel("r1"))
    client = harness.ask(max_tokens=400)
    finish = client.wait()
    assert finish.reason is FinishReason.CANCELLED
    assert 7 <= finish.usage.completion_tokens < 400
    assert client.text
    assert not harness.engine.cancel(client.request.id)
    harness.ask().wait()
    assert {e.width for e in harness.of(Step) if isinstance(e, Step)} == {1}


def test_a_prompt_beyond_the_context_is_refused_before_any_work(harness: Harness) -> None:
    context = info_of(harness).context
    running = harness.ask(max_tokens=50)
    with pytest.raises(ContextLengthError, match="maximum context length"):
        harness.ask(prompt=(5,) * context, max_tokens=1)
    assert running.wait().reason is FinishReason.LENGTH
    assert (
        harness.ask(prompt=(5,) * (context - 1), max_tokens=1).wait().usage.completion_tokens == 1
    )


def test_a_full_queue_refuses_at_once(start: Start) -> None:
    harness = start(max_batch=1, queue_limit=2)
    with harness.held():
        clients = [harness.ask(max_tokens=300) for _ in range(3)]
        with pytest.raises(QueueFullError) as refused:
            harness.ask()
    assert 1 <= refused.value.retry_after <= 60
    for client in clients:
        harness.engine.cancel(client.request.id)
        client.wait()
    harness.ask().wait()


def test_a_request_that_does_not_fit_yet_waits_and_says_why(start: Start) -> None:
    tokens = 300
    per_token = info_of(start()).kv_bytes_per_token
    harness = start(max_batch=4, kv_budget=tokens * per_token, prefix_cache=0)
    with harness.held():
        first = harness.ask(max_tokens=200)
        second = harness.ask(max_tokens=200)
    assert first.wait().reason is FinishReason.LENGTH
    assert second.wait().reason is FinishReason.LENGTH
    told = [event for event in harness.of(Waiting) if isinstance(event, Waiting)]
    assert any("memory" in event.why for event in told)
    with pytest.raises(ContextLengthError, match="memory"):
        harness.ask(max_tokens=tokens)


def test_a_pause_holds_newcomers_and_leaves_the_running_alone(harness: Harness) -> None:
    running = harness.ask(max_tokens=300)
    running.wait_tokens(5)
    harness.engine.pause(True)
    harness.wait_until(lambda: harness.of(Paused))
    held = [harness.ask(max_tokens=4) for _ in range(2)]
    running.wait()
    assert harness.engine.snapshot().paused
    assert [e.request for e in harness.of(Admitted) if isinstance(e, Admitted)] == ["r1"]
    harness.engine.cancel("r2")
    assert held[0].wait().reason is FinishReason.CANCELLED
    harness.engine.pause(False)
    assert held[1].wait().reason is FinishReason.LENGTH
    assert not harness.engine.snapshot().paused


def test_a_pause_is_told_at_once_however_busy_the_engine_is(harness: Harness) -> None:
    busy = threading.Event()
    harness.engine._inbox.put(partial(_wait_for, busy))
    harness.engine.pause(True)
    assert harness.engine.snapshot().paused
    harness.engine.pause(False)
    assert not harness.engine.snapshot().paused
    harness.engine.pause(True)
    held = harness.ask(max_tokens=4)
    busy.set()
    harness.wait_until(lambda: harness.engine._inbox.empty())
    assert not harness.of(Admitted)
    assert [e.paused for e in harness.of(Paused) if isinstance(e, Paused)] == [True, False, True]
    harness.engine.pause(False)
    held.wait()


def test_a_paused_engine_sleeps(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.engine.pause(True)
    harness.wait_until(lambda: harness.of(Paused))
    turns: list[None] = []
    turn = Loop.turn
    monkeypatch.setattr(Loop, "turn", lambda self: (turns.append(None), turn(self))[1])
    client = harness.ask(max_tokens=4)
    time.sleep(0.2)
    assert len(turns) <= 2, "one for each thing that came in"
    harness.engine.pause(False)
    client.wait()


def test_closing_ends_open_requests(start: Start) -> None:
    harness = start(max_batch=1)

    def stopping() -> bool:
        return harness.engine.snapshot().status is EngineStatus.STOPPING

    harness.at(lambda: harness.gained("r1"), lambda: harness.wait_until(stopping))
    running, queued = harness.ask(max_tokens=400), harness.ask()
    running.wait_tokens(1)
    harness.engine.close()
    assert {running.wait().reason, queued.wait().reason} == {FinishReason.CANCELLED}
    with pytest.raises(EngineUnavailableError):
        harness.ask()


def test_nothing_of_finished_requests_is_kept(start: Start) -> None:
    harness = start(max_batch=8)
    loop = harness.engine._loop
    assert loop is not None
    clients: list[Client] = []
    baseline = 0
    for round_ in range(30):
        clients = [harness.ask(prompt=(5,) * (1 + n * 7), max_tokens=1 + n) for n in range(10)]
        for client in clients[::3]:
            harness.engine.cancel(client.request.id)
        for client in clients:
            client.wait()
        harness.wait_until(lambda: loop.idle)
        if round_ == 5:
            baseline = mx.get_active_memory()
    assert mx.get_active_memory() <= baseline + 64 * 1024
    assert len(harness.engine.snapshot().requests) <= 64
    tables = (harness.engine._live, loop._rows, loop._scheduler.queue, loop._reader)
    assert not any(map(len, (*tables, loop._batch.rows)))
    assert loop._scheduler.running == 0


def test_an_idle_engine_sleeps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []
    turn = Loop.turn
    monkeypatch.setattr(Loop, "turn", lambda self: (turns.append(None), turn(self))[1])
    harness = start()
    harness.ask(max_tokens=5).wait()
    loop = harness.engine._loop
    assert loop is not None
    harness.wait_until(lambda: loop.idle)
    before = len(turns)
    assert before >= 5
    time.sleep(0.2)
    assert len(turns) <= before + 1


def _wait_for(event: threading.Event) -> None:
    assert event.wait(60)
