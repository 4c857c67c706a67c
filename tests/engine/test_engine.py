"""The running engine: cancellation at every stage, isolation, limits, events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

import engine.row
from engine.batch import Batch
from engine.events import (
    Admitted,
    EngineStatus,
    Finished,
    FirstToken,
    Paused,
    Phase,
    Prefill,
    Queued,
    Snapshot,
    Step,
    Warning,
)
from engine.loop import Loop
from engine.models.capabilities import Feature
from engine.scheduler import PrefillBudget
from engine.state import EngineState
from engine.types import (
    ContextLengthError,
    EngineUnavailableError,
    FinishReason,
    GenerationRequest,
    QueueFullError,
    SamplingParams,
)
from tests.engine.conftest import Client, Harness, info_of
from tests.tiny import tiny_llama

Start = Callable[..., Harness]


def test_a_request_tells_its_whole_life_in_order(harness: Harness) -> None:
    client = harness.ask(prompt=tuple(range(3, 43)), max_tokens=6)
    finish = client.wait()
    harness.wait_until(lambda: harness.of(Finished))

    kinds = [type(e) for e in harness.events if getattr(e, "request", None) == "r1"]
    assert kinds[0] is Queued
    assert kinds[1] is Admitted
    assert Prefill in kinds
    assert kinds.index(FirstToken) > kinds.index(Prefill)
    assert kinds[-1] is Finished
    assert (finish.reason, finish.usage.prompt_tokens) == (FinishReason.LENGTH, 40)
    assert finish.usage.completion_tokens == 6
    counted = sum(e.tokens.get("r1", 0) for e in harness.of(Step) if isinstance(e, Step))
    assert counted == 6
    assert finish.timings.admitted is not None
    assert finish.timings.first_token is not None
    assert finish.timings.admitted <= finish.timings.first_token <= finish.timings.finished


def test_a_newcomer_joins_mid_flight_and_leaves_first(harness: Harness) -> None:
    long = harness.ask(max_tokens=300)
    long.wait_tokens(5)
    short = harness.ask(prompt=(9, 8), max_tokens=4)
    short.wait()
    assert not long.done.is_set()
    long.wait()
    admitted = {e.request: e for e in harness.of(Admitted) if isinstance(e, Admitted)}
    assert not admitted["r1"].mid_flight
    assert admitted["r2"].mid_flight
    assert max(e.width for e in harness.of(Step) if isinstance(e, Step)) == 2


def test_a_sampled_request_runs_beside_a_greedy_one_and_leaves_it_alone(harness: Harness) -> None:
    alone = harness.ask(max_tokens=200)
    alone.wait()
    greedy = harness.ask(max_tokens=200)
    greedy.wait_tokens(10)
    sampled = harness.ask(prompt=(9, 8), max_tokens=20, temperature=1.2, top_p=0.9, seed=5)
    sampled.wait()
    greedy.wait()
    assert greedy.text == alone.text
    shared = [e for e in harness.of(Step) if isinstance(e, Step) and {"r2", "r3"} <= set(e.tokens)]
    assert sum(e.tokens["r3"] for e in shared) == 20


def test_ten_arrivals_never_disturb_a_running_row(harness: Harness) -> None:
    alone = harness.ask(max_tokens=200)
    alone.wait()
    running = harness.ask(max_tokens=200)
    for _ in range(10):
        running.wait_tokens(10)
        harness.ask(prompt=(4, 4, 4), max_tokens=3).wait()
    running.wait()
    assert running.text == alone.text


def test_at_most_one_slice_is_read_between_two_steps_of_a_running_row(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 16)
    harness = start(max_batch=2)
    running = harness.ask(max_tokens=300)
    running.wait_tokens(2)
    harness.ask(prompt=tuple(range(3, 303)), max_tokens=2).wait()
    running.wait()
    between, slices = [], 0
    for event in harness.events:
        if isinstance(event, Prefill) and event.request == "r2":
            slices += 1
        elif isinstance(event, Step) and "r1" in event.tokens:
            between.append(slices)
            slices = 0
    assert sum(between) == 19  # 299 tokens, 16 at a time: the prompt really was read in slices
    assert max(between) == 1


def test_cancel_while_queued_never_reaches_prefill(start: Start) -> None:
    harness = start(max_batch=1)
    running = harness.ask(max_tokens=400)
    queued = harness.ask(prompt=tuple(range(3, 30)))
    running.wait_tokens(1)
    assert harness.engine.cancel(queued.request.id)
    assert queued.wait().reason is FinishReason.CANCELLED
    running.wait()
    seen = {type(e) for e in harness.events if getattr(e, "request", None) == "r2"}
    assert seen == {Queued, Finished}


def test_cancel_while_the_prompt_is_read(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 2)
    harness = start(max_batch=2)
    client = harness.ask(prompt=tuple(range(3, 300)), max_tokens=5)
    harness.wait_until(lambda: harness.of(Prefill))
    harness.engine.cancel(client.request.id)
    finish = client.wait()
    assert finish.reason is FinishReason.CANCELLED
    assert finish.usage.completion_tokens == 0
    assert harness.ask().wait().reason is FinishReason.LENGTH


def test_cancel_while_decoding_keeps_the_text_and_frees_the_slot(start: Start) -> None:
    harness = start(max_batch=1)
    client = harness.ask(max_tokens=400)
    client.wait_tokens(7)
    harness.engine.cancel(client.request.id)
    finish = client.wait()
    assert finish.reason is FinishReason.CANCELLED
    assert 7 <= finish.usage.completion_tokens < 400
    assert client.text
    assert not harness.engine.cancel(client.request.id)
    harness.ask().wait()


def test_stop_strings_end_a_row_and_are_not_sent(harness: Harness) -> None:
    whole = harness.ask(max_tokens=60)
    whole.wait()
    stop = whole.text[10:14]
    cut = harness.ask(max_tokens=60, stop=(stop,))
    assert cut.wait().reason is FinishReason.STOP
    assert cut.text == whole.text[: whole.text.index(stop)]


def test_the_end_of_turn_token_ends_a_row(start: Start, tmp_path: Path) -> None:
    harness = start(folder=tiny_llama(tmp_path, ends=True))
    eos = 2
    client = harness.ask(max_tokens=50, logit_bias=((eos, 1000.0),))
    finish = client.wait()
    assert (finish.reason, finish.usage.completion_tokens) == (FinishReason.STOP, 1)
    assert client.text == ""


def test_the_end_of_turn_token_waits_for_the_fewest_tokens_asked_for(
    start: Start, tmp_path: Path
) -> None:
    harness = start(folder=tiny_llama(tmp_path, ends=True))
    always = SamplingParams(logit_bias=((2, 1000.0),))
    for least, expected in ((5, (FinishReason.STOP, 6)), (8, (FinishReason.LENGTH, 8))):
        request = GenerationRequest(f"least {least}", (5, 6), 8, always, min_tokens=least)
        client = Client(request)
        harness.engine.submit(request, client)
        finish = client.wait()
        assert (finish.reason, finish.usage.completion_tokens) == expected
        assert client.text == ""


def test_identical_prompts_with_their_own_seeds_differ(harness: Harness) -> None:
    clients = [harness.ask(max_tokens=20, temperature=1.0, seed=seed) for seed in range(4)]
    for client in clients:
        client.wait()
    assert len({client.text for client in clients}) > 1
    again = harness.ask(max_tokens=20, temperature=1.0, seed=2)
    again.wait()
    assert again.text == clients[2].text


def test_every_feature_is_stated_once_the_model_is_loaded(harness: Harness) -> None:
    stated = {c.feature: c for c in harness.engine.snapshot().capabilities}
    assert list(stated) == list(Feature)
    assert (stated["batching"].effective, stated["batching"].refused) == ("4 slots", False)
    assert all(capability.why for capability in stated.values())


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
    clients = [harness.ask() for _ in range(5)]
    assert {client.wait().reason for client in clients} == {FinishReason.ERROR}
    harness.wait_until(lambda: harness.engine.snapshot().status is EngineStatus.FAILED)
    assert "the device is gone" in (harness.engine.snapshot().error or "")
    with pytest.raises(EngineUnavailableError, match="3 failures"):
        harness.ask()


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
    first = harness.ask(max_tokens=200)
    second = harness.ask(max_tokens=200)
    harness.wait_until(
        lambda: any("memory" in r.waiting_for for r in harness.engine.snapshot().requests)
    )
    assert first.wait().reason is FinishReason.LENGTH
    assert second.wait().reason is FinishReason.LENGTH
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


def test_a_paused_engine_sleeps(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.engine.pause(True)
    harness.wait_until(lambda: harness.of(Paused))
    turns: list[None] = []
    turn = Loop.turn
    monkeypatch.setattr(Loop, "turn", lambda self: (turns.append(None), turn(self))[1])
    client = harness.ask(max_tokens=4)
    time.sleep(0.2)
    assert len(turns) <= 1
    harness.engine.pause(False)
    client.wait()


def test_nothing_of_finished_requests_is_kept(start: Start) -> None:
    harness = start(max_batch=8)
    clients: list[Client] = []
    baseline = 0
    for round_ in range(30):
        clients = [harness.ask(prompt=(5,) * (1 + n * 7), max_tokens=1 + n) for n in range(10)]
        for client in clients[::3]:
            harness.engine.cancel(client.request.id)
        for client in clients:
            client.wait()
        harness.wait_until(lambda: len(harness.of(Finished)) == len(harness.of(Queued)))
        if round_ == 5:
            baseline = mx.get_active_memory()
    assert mx.get_active_memory() <= baseline + 64 * 1024
    assert not harness.engine._live
    assert len(harness.engine.snapshot().requests) <= 64


def test_an_idle_engine_sleeps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []
    turn = Loop.turn

    def counted(self: Loop) -> None:
        turns.append(time.monotonic())
        turn(self)

    monkeypatch.setattr(Loop, "turn", counted)
    harness = start()
    harness.ask(max_tokens=5).wait()
    settled = threading.Event()
    settled.wait(0.3)
    before = len(turns)
    assert before >= 5
    settled.wait(0.3)
    assert len(turns) == before


def test_a_late_subscriber_sees_the_same_state(harness: Harness) -> None:
    client = harness.ask(max_tokens=300)
    client.wait_tokens(3)
    late = harness.engine.subscribe(lambda: None)
    (snapshot,) = late.drain()
    assert isinstance(snapshot, Snapshot)
    assert [(r.request, r.phase) for r in snapshot.requests] == [("r1", Phase.DECODE)]
    client.wait()
    state = EngineState()
    state.apply(snapshot)
    harness.wait_until(lambda: harness.of(Finished))
    for event in late.drain():
        state.apply(event)
    late.close()
    assert state.requests == {r.request: r for r in harness.engine.snapshot().requests}


def test_closing_ends_open_requests(start: Start) -> None:
    harness = start(max_batch=1)
    running, queued = harness.ask(max_tokens=400), harness.ask()
    running.wait_tokens(1)
    harness.engine.close()
    assert {running.wait().reason, queued.wait().reason} == {FinishReason.CANCELLED}
    with pytest.raises(EngineUnavailableError):
        harness.ask()


def test_a_failed_load_is_a_status_not_a_crash() -> None:
    from engine.engine import Engine
    from engine.types import EngineSettings

    def broken(report: object) -> None:
        raise ValueError("no such model")

    engine = Engine(broken, EngineSettings())  # type: ignore[arg-type]
    engine.start()
    engine._thread.join(10)
    assert engine.snapshot().status is EngineStatus.FAILED
    assert engine.snapshot().error == "no such model"
    with pytest.raises(EngineUnavailableError, match="no such model"):
        engine.submit(GenerationRequest("a", (1,), 1, SamplingParams()), lambda _: None)
    engine.close()


def test_two_engines_in_turn_and_at_once(start: Start) -> None:
    first, second = start(), start()
    clients = [first.ask(max_tokens=20), second.ask(max_tokens=20)]
    texts = []
    for client in clients:
        client.wait()
        texts.append(client.text)
    assert texts[0] == texts[1]
    first.engine.close()
    third = start()
    client = third.ask(max_tokens=20)
    client.wait()
    assert client.text == texts[0]


def test_a_step_that_never_returns_is_seen_from_outside(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = start(max_batch=2, stuck_after=0.05)
    launch, returns = Batch.launch, threading.Event()

    def hang(self: Batch) -> object:
        assert returns.wait(60)
        return launch(self)

    monkeypatch.setattr(Batch, "launch", hang)
    client = harness.ask(max_tokens=3)
    try:
        harness.wait_until(lambda: harness.engine.snapshot().status is EngineStatus.STUCK)
        assert (harness.engine.snapshot().error or "").startswith("stuck for 0 s in a step of 1")
        assert [w.code for w in harness.of(Warning) if isinstance(w, Warning)] == ["stuck"]
    finally:
        returns.set()
    assert client.wait().reason is FinishReason.LENGTH
    harness.wait_until(lambda: harness.engine.snapshot().status is EngineStatus.OK)
    assert harness.engine.snapshot().error is None
