"""What breaks in the engine, and that no more breaks with it."""

from __future__ import annotations

import re
import threading

import mlx.core as mx
import pytest

import engine.row
from engine.batch import Batch
from engine.engine import Engine
from engine.events import EngineStatus, Warning
from engine.loop import Loop
from engine.prefill import PromptReader
from engine.row import Row
from engine.types import (
    EngineSettings,
    EngineUnavailableError,
    FinishReason,
    GenerationRequest,
    SamplingParams,
)
from tests.engine.conftest import DEADLINE, Harness, Start


def test_an_exception_in_one_rows_processor_ends_that_row_only(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boom(logits: mx.array) -> mx.array:
        raise RuntimeError("the processor broke\non two lines")

    plain = engine.row.processors
    monkeypatch.setattr(
        engine.row, "processors", lambda params: [boom] if params.seed == 13 else plain(params)
    )
    healthy = harness.ask(max_tokens=100)
    healthy.wait_tokens(2)
    broken = harness.ask(max_tokens=100, seed=13)
    finish = broken.wait()
    assert finish.reason is FinishReason.ERROR
    assert finish.error == "the processor broke on two lines"
    assert healthy.wait().reason is FinishReason.LENGTH
    assert harness.ask().wait().reason is FinishReason.LENGTH
    assert harness.engine.snapshot().status is EngineStatus.OK


def test_a_request_that_cannot_be_set_up_fails_alone(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(params: SamplingParams) -> list[object]:
        raise ValueError("no processor for this")

    with monkeypatch.context() as patch:
        patch.setattr(engine.row, "processors", broken)
        finish = harness.ask().wait()
    assert (finish.reason, finish.error) == (FinishReason.ERROR, "no processor for this")
    assert harness.ask().wait().reason is FinishReason.LENGTH


def test_a_failing_step_ends_the_running_rows_once_and_the_queue_goes_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = start(max_batch=2)
    launch, failures = Batch.launch, iter([True])

    def fail_once(self: Batch) -> object:
        if len(self.rows) == 2 and next(failures, False):
            raise RuntimeError("no memory left on the device")
        return launch(self)

    monkeypatch.setattr(Batch, "launch", fail_once)
    with harness.held():
        clients = [harness.ask(max_tokens=30) for _ in range(3)]
    reasons = [client.wait().reason for client in clients]
    assert reasons == [FinishReason.ERROR, FinishReason.ERROR, FinishReason.LENGTH]
    harness.wait_until(lambda: harness.of(Warning))
    assert harness.engine.snapshot().status is EngineStatus.OK


def test_three_failures_without_a_token_stop_the_engine_visibly(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always(self: Batch) -> object:
        raise RuntimeError("the device is gone")

    harness = start(max_batch=1)
    monkeypatch.setattr(Batch, "launch", always)
    with harness.held():
        clients = [harness.ask() for _ in range(5)]
    assert {client.wait().reason for client in clients} == {FinishReason.ERROR}
    harness.wait_until(lambda: harness.engine.snapshot().status is EngineStatus.FAILED)
    assert "the device is gone" in (harness.engine.snapshot().error or "")
    with pytest.raises(EngineUnavailableError, match="3 failures"):
        harness.ask()


def test_a_step_that_never_returns_is_seen_from_outside(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = r"stuck for \d+ s in a step of 1 row"
    harness = start(max_batch=2, stuck_after=0.05)
    launch, returns = Batch.launch, threading.Event()

    def hang(self: Batch) -> object:
        assert returns.wait(60)
        return launch(self)

    monkeypatch.setattr(Batch, "launch", hang)
    client = harness.ask(max_tokens=3)
    try:
        harness.wait_until(lambda: re.fullmatch(stuck, harness.engine.snapshot().error or ""))
        assert harness.engine.snapshot().status is EngineStatus.STUCK
        told = [w for w in harness.of(Warning) if isinstance(w, Warning)]
        assert {w.code for w in told} == {"stuck"}
        assert len([w for w in told if re.fullmatch(stuck, w.message)]) == 1
    finally:
        returns.set()
    assert client.wait().reason is FinishReason.LENGTH
    well = (EngineStatus.OK, None)
    harness.wait_until(
        lambda: (now := harness.engine.snapshot()) and (now.status, now.error) == well
    )


def test_a_failed_load_is_a_status_not_a_crash() -> None:
    def broken(report: object) -> None:
        raise ValueError("no such model")

    engine = Engine(broken, EngineSettings())  # type: ignore[arg-type]
    engine.start()
    engine._thread.join(DEADLINE)
    assert engine.snapshot().status is EngineStatus.FAILED
    assert engine.snapshot().error == "no such model"
    with pytest.raises(EngineUnavailableError, match="no such model"):
        engine.submit(GenerationRequest("a", (1,), 1, SamplingParams()), lambda _: None)
    engine.close()


def test_a_failure_on_the_way_out_ends_the_running_rows_and_no_more(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = start(max_batch=2)
    leave, failures = Batch.leave, iter([True])

    def fail_once(self: Batch, row: Row) -> None:
        if row.request.id == "r1" and next(failures, False):
            raise RuntimeError("no memory left on the device")
        leave(self, row)

    monkeypatch.setattr(Batch, "leave", fail_once)
    running = harness.ask(max_tokens=400)
    running.wait_tokens(2)
    harness.engine.cancel("r1")
    assert running.wait().error == "the engine failed: no memory left on the device"
    assert harness.ask().wait().reason is FinishReason.LENGTH
    assert harness.engine.snapshot().status is EngineStatus.OK


def test_a_request_that_cannot_be_admitted_takes_no_other_with_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = start(max_batch=4)
    add, failures = PromptReader.add, iter([True])

    def fail_once(self: PromptReader, row: Row) -> None:
        if next(failures, False):
            raise RuntimeError("what is kept can't be read")
        add(self, row)

    monkeypatch.setattr(PromptReader, "add", fail_once)
    harness.engine.pause(True)
    clients = [harness.ask() for _ in range(3)]
    harness.engine.pause(False)
    reasons = [client.wait().reason for client in clients]
    assert reasons == [FinishReason.ERROR, FinishReason.LENGTH, FinishReason.LENGTH]


def test_a_loop_that_breaks_leaves_nobody_waiting(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Loop) -> None:
        raise RuntimeError("no such row")

    harness = start(max_batch=1)
    harness.at(lambda: harness.gained("r1") >= 2, lambda: monkeypatch.setattr(Loop, "turn", broken))
    with harness.held():
        clients = [harness.ask(max_tokens=400) for _ in range(3)]
    assert {client.wait().error for client in clients} == {"the engine failed: no such row"}
    harness.wait_until(lambda: harness.engine.snapshot().status is EngineStatus.FAILED)
    with pytest.raises(EngineUnavailableError, match="no such row"):
        harness.ask()
