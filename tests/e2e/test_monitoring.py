"""What tools that watch other servers read here."""

from __future__ import annotations

import threading

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dspark_tui.engines.remote import metrics_load, slots_load
from engine.events import Admitted, Prefill
from engine.server.metrics import Metrics
from engine.types import Delta, Finish, FinishReason, KvUse, Timings, Usage
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import INFO, FakeEngine
from tests.e2e.waiting import wait_until


def get(server: ThreadedServer, path: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", trust_env=False)


@pytest.fixture
def busy(server: ThreadedServer, engine: FakeEngine) -> str:
    """A request in slot 2, its prompt half read, and one that waits; the first one's id."""
    engine.held = True
    body = {"messages": [{"role": "user", "content": "one two"}], "max_tokens": 9}
    for _ in range(2):
        url = f"{server.url}/v1/chat/completions"
        threading.Thread(target=httpx.post, args=(url,), kwargs={"json": body}, daemon=True).start()
    wait_until(lambda: len(engine.requests) == 2, "both are asked")
    id = engine.requests[0].id
    engine.publish(Admitted, id, 2, 0.1, False, 1)
    engine.publish(Prefill, id, 1, 2, 1.0)
    return id


def test_slots_are_what_llama_cpp_s_watchers_expect(server: ThreadedServer, busy: str) -> None:
    answer = get(server, "/slots")
    load = slots_load(answer.text, 0.0)
    assert load is not None
    assert (load.slots, load.running) == (4, 1)
    slot = answer.json()[2]
    assert (slot["request"], slot["phase"]) == (busy, "prefill")
    assert slot["next_token"] == {"n_decoded": 0, "n_remain": 9, "has_next_token": True}
    assert slot["n_ctx"] == INFO.context
    assert (slot["n_prompt_tokens"], slot["n_prompt_tokens_processed"]) == (2, 1)
    assert answer.json()[0]["request"] is None


def test_the_load_under_the_names_of_other_servers(server: ThreadedServer, busy: str) -> None:
    answer = get(server, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    load = metrics_load(answer.text, 0.0)
    assert load is not None
    assert (load.running, load.waiting) == (1, 1)


def test_k_v_use_under_the_names_of_other_servers(
    server: ThreadedServer, engine: FakeEngine
) -> None:
    engine.kv_use = KvUse(tokens=300, share=0.25)
    answer = get(server, "/metrics")
    load = metrics_load(answer.text, 0.0)
    assert load is not None
    assert load.kv_usage == 0.25
    families = {f.name: f for f in text_string_to_metric_families(answer.text)}
    for name in ("vllm:gpu_cache_usage_perc", "llamacpp:kv_cache_usage_ratio"):
        assert families[name].samples[0].value == 0.25
    assert families["llamacpp:kv_cache_tokens"].samples[0].value == 300


def test_ended_requests_are_counted_once() -> None:
    metrics = Metrics()
    metrics.ended(Finish(FinishReason.STOP, Usage(5, 3, 2), Timings(0.25, 0.5, 2.0)))
    metrics.ended(Finish(FinishReason.CANCELLED, Usage(7, 0), Timings(None, None, 0.125)))
    text = metrics.text(FakeEngine().snapshot(), KvUse()).decode()
    values = {
        (sample.name, sample.labels.get("finished_reason") or sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    for name in ("vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total"):
        assert values[name, None] == 12
    for name in ("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total"):
        assert values[name, None] == 3
    assert values["vllm:prefix_cache_hits_total", None] == 2
    assert values["vllm:request_success_total", "stop"] == 1
    assert values["vllm:request_success_total", "abort"] == 1
    assert values["vllm:time_to_first_token_seconds_sum", None] == 0.5
    assert values["vllm:e2e_request_latency_seconds_count", None] == 2
    assert values["llamacpp:prompt_seconds_total", None] == 0.25
    assert values["llamacpp:tokens_predicted_seconds_total", None] == 1.5


def test_answers_of_the_server_are_counted(server: ThreadedServer) -> None:
    def counted() -> float:
        families = text_string_to_metric_families(get(server, "/metrics").text)
        return next(f.samples[0].value for f in families if f.name == "vllm:generation_tokens")

    before = counted()
    httpx.post(f"{server.url}/v1/completions", json={"prompt": ["one", "two"]})
    assert counted() == before + 6


def test_tokens_of_a_running_request_are_counted_as_they_come(
    server: ThreadedServer, engine: FakeEngine, busy: str
) -> None:
    def counted() -> float:
        families = text_string_to_metric_families(get(server, "/metrics").text)
        return next(f.samples[0].value for f in families if f.name == "llamacpp:tokens_predicted")

    before = counted()
    engine._sinks[busy](Delta("one two", 2))
    assert counted() == before + 2
    engine.answer(busy)
    assert counted() == before + 2 + 3, "none is counted twice when it ends"


def test_props_name_the_model_its_slots_and_its_template(server: ThreadedServer) -> None:
    answer = get(server, "/props").json()
    assert answer["total_slots"] == 4
    assert answer["model_alias"] == "fake-1"
    assert answer["default_generation_settings"]["n_ctx"] == INFO.context
    assert answer["chat_template"] == "{{ messages }}"
    assert not answer["modalities"]["vision"]


def test_they_answer_while_the_model_loads(server: ThreadedServer, engine: FakeEngine) -> None:
    engine.model = None
    assert get(server, "/metrics").status_code == 200
    assert get(server, "/slots").status_code == 503
    assert get(server, "/props").status_code == 503
