"""The running engine: what a request goes through, and what its neighbours don't notice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.bus import Subscription
from engine.events import (
    Admitted,
    Event,
    Finished,
    FirstToken,
    Phase,
    Prefill,
    Queued,
    Snapshot,
    Step,
)
from engine.models.capabilities import Feature
from engine.models.load import load
from engine.scheduler import PrefillBudget
from engine.state import EngineState
from engine.types import Finish, FinishReason, GenerationRequest, SamplingParams, Update
from tests.engine.conftest import Client, Harness, Start
from tests.tiny import tiny_llama


def test_a_request_tells_its_whole_life_in_order(harness: Harness) -> None:
    client = harness.ask(prompt=tuple(range(3, 43)), max_tokens=6)
    finish = client.wait()

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


def test_the_state_tells_of_an_end_before_the_client_hears_of_it(harness: Harness) -> None:
    """Else whoever has an answer might find its slot still taken."""
    told: list[Phase] = []

    def sink(update: Update) -> None:
        if isinstance(update, Finish):
            told.extend(request.phase for request in harness.engine.snapshot().requests)

    request = GenerationRequest("r", (5, 6), 3)
    harness.engine.submit(request, sink)
    harness.ask(max_tokens=20).wait()
    assert told[0] is Phase.FINISHED


def test_a_newcomer_joins_mid_flight_and_leaves_first(harness: Harness) -> None:
    joined: list[Client] = []
    harness.at(
        lambda: harness.gained("r1") >= 5,
        lambda: joined.append(harness.ask(prompt=(9, 8), max_tokens=4)),
    )
    harness.ask(max_tokens=300).wait()
    (short,) = joined
    short.wait()
    assert [e.request for e in harness.of(Finished) if isinstance(e, Finished)] == ["r2", "r1"]
    admitted = {e.request: e for e in harness.of(Admitted) if isinstance(e, Admitted)}
    assert not admitted["r1"].mid_flight
    assert admitted["r2"].mid_flight
    assert max(e.width for e in harness.of(Step) if isinstance(e, Step)) == 2


def test_a_sampled_request_runs_beside_a_greedy_one_and_leaves_it_alone(harness: Harness) -> None:
    alone = harness.ask(max_tokens=200)
    alone.wait()
    sampling = {"temperature": 1.2, "top_p": 0.9, "seed": 5}
    harness.at(
        lambda: harness.gained("r2") >= 10,
        lambda: harness.ask(prompt=(9, 8), max_tokens=20, **sampling),
    )
    greedy = harness.ask(max_tokens=200)
    greedy.wait()
    assert greedy.text == alone.text
    shared = [e for e in harness.of(Step) if isinstance(e, Step) and {"r2", "r3"} <= set(e.tokens)]
    assert sum(e.tokens["r3"] for e in shared) == 20


def test_ten_arrivals_never_disturb_a_running_row(harness: Harness) -> None:
    alone = harness.ask(max_tokens=200)
    alone.wait()
    arrived: list[Client] = []
    for number in range(10):
        harness.at(
            lambda least=10 + 15 * number: harness.gained("r2") >= least,
            lambda: arrived.append(harness.ask(prompt=(4, 4, 4), max_tokens=3)),
        )
    running = harness.ask(max_tokens=200)
    running.wait()
    assert running.text == alone.text
    assert running.tokens == 200
    ends = [e.request for e in harness.of(Finished) if isinstance(e, Finished)]
    assert len(arrived) == 10
    assert ends[-1] == "r2"
    life = [type(e) for e in harness.events if getattr(e, "request", None) == "r2"]
    assert Prefill not in life[life.index(FirstToken) :], "nothing of it is read again"


def test_at_most_one_slice_is_read_between_two_steps_of_a_running_row(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillBudget, "tokens", lambda *_: 16)
    harness = start(max_batch=2)
    harness.at(
        lambda: harness.gained("r1") >= 2,
        lambda: harness.ask(prompt=tuple(range(3, 303)), max_tokens=2),
    )
    harness.ask(max_tokens=300).wait()
    between, slices = [], 0
    for event in harness.events:
        if isinstance(event, Prefill) and event.request == "r2":
            slices += 1
        elif isinstance(event, Step) and "r1" in event.tokens:
            between.append(slices)
            slices = 0
    assert sum(between) == 19  # 299 tokens, 16 at a time: the prompt really was read in slices
    assert max(between) == 1


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


def test_a_late_subscriber_sees_the_same_state(harness: Harness) -> None:
    subscribed: list[Subscription] = []
    seen: list[Event] = []

    def subscribe() -> None:
        subscribed.append(harness.engine.subscribe(lambda: None))
        seen.extend(subscribed[0].drain())

    harness.at(lambda: harness.gained("r1") >= 3, subscribe)
    harness.ask(max_tokens=300).wait()
    (late,), (snapshot,) = subscribed, seen
    assert isinstance(snapshot, Snapshot)
    assert [(r.request, r.phase) for r in snapshot.requests] == [("r1", Phase.DECODE)]
    state = EngineState()
    state.apply(snapshot)
    for event in late.drain():
        state.apply(event)
    late.close()
    assert state.requests == {r.request: r for r in harness.engine.snapshot().requests}


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


def test_models_take_turns_whichever_thread_loads_them_and_asks(
    start: Start, tmp_path: Path
) -> None:
    loaded = [load(tiny_llama(tmp_path / str(n), seed=n, ends=False), "tiny") for n in (0, 1)]
    texts = []
    for model in (loaded[0], loaded[1], loaded[0]):
        harness = start(model=model)
        with ThreadPoolExecutor(1) as elsewhere:
            client = elsewhere.submit(harness.ask, max_tokens=20).result()
        assert client.wait().error is None
        texts.append(client.text)
        harness.engine.close()
    assert texts[0] == texts[2] != texts[1]
