"""Health, models, state, and the live events."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from httpx_sse import connect_sse

from engine.events import (
    EngineStatus,
    Event,
    Finished,
    Progress,
    Queued,
    Snapshot,
    Speculation,
    Status,
    Step,
    decode,
)
from engine.server.guard import AccessPolicy
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.waiting import wait_until

CHAT = [{"role": "user", "content": "say hello"}]


def test_health_while_loading_loaded_and_failed() -> None:
    engine = FakeEngine()
    engine.progress(Progress("fetch", "weights", 3, 10, "bytes"))
    with ThreadedServer(engine, AccessPolicy()) as server:
        loading = httpx.get(f"{server.url}/health")
        assert loading.status_code == 503
        assert loading.json()["status"] == "loading"
        assert loading.json()["progress"]["done"] == 3
        engine.load()
        loaded = httpx.get(f"{server.url}/health")
        assert loaded.status_code == 200
        assert loaded.json()["status"] == "ok"
        assert loaded.json()["slots"] == 4
        (capability,) = loaded.json()["capabilities"]
        assert (capability["feature"], capability["refused"]) == ("precision", False)
        engine.fail("three steps in a row failed")
        failed = httpx.get(f"{server.url}/health")
        assert failed.status_code == 503
        assert failed.json()["status"] == "failed"
        assert failed.json()["error"] == "three steps in a row failed"


def test_health_while_a_step_does_not_return(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.publish(Status, EngineStatus.STUCK, error="stuck for 130 s in a step of 4 rows")
    stuck = httpx.get(f"{server.url}/health")
    assert stuck.status_code == 503
    assert stuck.json()["status"] == "stuck"
    assert stuck.json()["error"] == "stuck for 130 s in a step of 4 rows"
    engine.publish(Status, EngineStatus.OK)
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_health_counts_who_waits_and_who_runs(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.held = True
    body = {"messages": CHAT, "stream": True}
    with (
        httpx.Client() as http,
        http.stream("POST", f"{server.url}/v1/chat/completions", json=body),
    ):
        health = httpx.get(f"{server.url}/health").json()
    assert (health["queue"], health["running"]) == (1, 0)


def test_models_are_listed_before_and_after_loading() -> None:
    engine = FakeEngine()
    with ThreadedServer(engine, AccessPolicy()) as server:
        (before,) = httpx.get(f"{server.url}/v1/models").json()["data"]
        engine.load()
        (after,) = httpx.get(f"{server.url}/v1/models").json()["data"]
        one = httpx.get(f"{server.url}/v1/models/fake-1").json()
    assert before["id"] == after["id"] == "fake-1"
    assert before["context_length"] is None
    assert after["context_length"] == 64
    assert after == one
    assert (after["object"], after["owned_by"]) == ("model", "local")


def test_models_are_listed_while_every_slot_is_taken(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.held = True
    body = {"messages": CHAT, "stream": True}
    with (
        httpx.Client(base_url=server.url) as http,
        http.stream("POST", "/v1/chat/completions", json=body | {"n": engine.snapshot().slots}),
    ):
        assert [m["id"] for m in httpx.get(f"{server.url}/v1/models").json()["data"]] == ["fake-1"]


@pytest.mark.parametrize(
    "path", ["/v1/models", "/models", "/v1/models/", "/v1/models?beta=true", "/health/"]
)
def test_paths_are_forgiving(server: ThreadedServer, path: str) -> None:
    assert httpx.get(server.url + path).status_code == 200


def test_the_state_is_a_snapshot(server: ThreadedServer, engine: FakeEngine) -> None:
    httpx.post(f"{server.url}/chat/completions/?x=1", json={"messages": CHAT})
    state = decode(httpx.get(f"{server.url}/engine/state").json())
    assert isinstance(state, Snapshot)
    assert state.status is EngineStatus.OK
    assert [request.tokens for request in state.requests] == [3]


def events_of(http: httpx.Client, url: str) -> Iterator[Event]:
    with connect_sse(http, "GET", f"{url}/engine/events") as source:
        for sse in source.iter_sse():
            event = decode(json.loads(sse.data))
            assert event is not None
            yield event


def test_events_open_with_a_snapshot_and_keep_every_lifecycle_event(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.pieces = tuple("abcdefghij")
    with httpx.Client() as http:
        events = events_of(http, server.url)
        assert isinstance(next(events), Snapshot)
        httpx.post(f"{server.url}/v1/chat/completions", json={"messages": CHAT})
        seen = [next(events)]
        while not isinstance(seen[-1], Finished):
            seen.append(next(events))
        events.close()
    assert isinstance(seen[0], Queued)
    assert [e.name for e in seen if not isinstance(e, Step)] == [
        "queued",
        "admitted",
        "first_token",
        "finished",
    ]
    assert sum(step.steps for step in seen if isinstance(step, Step)) == 10


def test_events_end_when_the_engine_stops(server: ThreadedServer, engine: FakeEngine) -> None:
    with httpx.Client() as http:
        events = events_of(http, server.url)
        next(events)
        engine.close()
        assert [event.status for event in events] == [EngineStatus.STOPPING]


def test_a_subscriber_that_leaves_is_forgotten(server: ThreadedServer, engine: FakeEngine) -> None:
    for _ in range(3):
        with httpx.Client() as http:
            events = events_of(http, server.url)
            next(events)
            assert engine.subscribers == 1
            events.close()
        wait_until(lambda: engine.subscribers == 0, "the subscription is closed")


def test_a_pause_is_told_to_everybody_and_what_is_asked_meanwhile_is_taken(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    def paused() -> list[object]:
        health = httpx.get(f"{server.url}/health")
        assert health.status_code == 200
        return [health.json()["paused"], httpx.get(f"{server.url}/engine/state").json()["paused"]]

    assert paused() == [False, False]
    assert httpx.post(f"{server.url}/engine/pause").json() == {"paused": True}
    assert paused() == [True, True]
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": CHAT})
    assert (answer.status_code, answer.headers["X-Dspark-Paused"]) == (200, "true")
    assert httpx.post(f"{server.url}/engine/resume").json() == {"paused": False}
    assert paused() == [False, False]
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": CHAT})
    assert "X-Dspark-Paused" not in answer.headers


def test_what_is_not_loaded_cannot_be_paused(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.model = None
    refusal = httpx.post(f"{server.url}/engine/pause")
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "engine_unavailable")


def test_the_protocol_describes_itself(server: ThreadedServer) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    assert {"/v1/chat/completions", "/v1/models", "/health", "/engine/events"} <= set(paths)
    assert "/chat/completions" not in paths


def test_health_says_how_drafts_fare(server: ThreadedServer, engine: FakeEngine) -> None:
    assert httpx.get(f"{server.url}/health").json()["speculation"] is None
    why = "verify 4 wide costs 1.9x at 8 rows"
    engine.publish(Speculation, "ngram", 0, 0.25, 1.1, why)
    told = httpx.get(f"{server.url}/health").json()["speculation"]
    assert (told["drafter"], told["length"], told["acceptance"]) == ("ngram", 0, 0.25)
    assert (told["tokens_per_forward"], told["why"]) == (1.1, why)
