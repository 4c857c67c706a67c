"""What other servers reveal of their load, in the words each of them publishes it."""

from __future__ import annotations

import json

import pytest

from dspark_tui.batch.lane_table import load_in_words
from dspark_tui.engines.remote import metrics_load, slots_load
from engine.events import Load

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 12.0
"""
OLD_VLLM = VLLM.replace("kv_cache_usage_perc", "gpu_cache_usage_perc")
SGLANG = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0"} 4.0
sglang:num_running_reqs{model_name="m",tp_rank="1"} 4.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 1.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
"""
LLAMA_CPP = """\
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 5
"""


@pytest.mark.parametrize(
    ("text", "load"),
    [
        (VLLM, Load(9.0, "/metrics", None, 5, 7, 0.5)),
        (OLD_VLLM, Load(9.0, "/metrics", None, 5, 7, 0.5)),
        (SGLANG, Load(9.0, "/metrics", None, 4, 1, 0.28)),
        (LLAMA_CPP, Load(9.0, "/metrics", None, 1, 5, None)),
        (
            "vllm:num_requests_running NaN\nvllm:num_requests_waiting 2",
            Load(9.0, "/metrics", None, None, 2),
        ),
        ("# TYPE python_gc gauge\npython_gc 1\n", None),
        ("<html>not found</html>", None),
        ("vllm:num_requests_running", None),
        ("", None),
    ],
)
def test_metrics(text: str, load: Load | None) -> None:
    assert metrics_load(text, 9.0) == load


@pytest.mark.parametrize(
    ("document", "load"),
    [
        (
            [{"id": 0, "is_processing": True, "n_ctx": 4096}, {"id": 1, "is_processing": False}],
            Load(9.0, "/slots", 2, 1),
        ),
        ([], None),
        ([{"id": 0}], None),
        ({"error": {"code": 501, "message": "disabled"}}, None),
        (3, None),
    ],
)
def test_slots(document: object, load: Load | None) -> None:
    assert slots_load(json.dumps(document), 9.0) == load


def test_slots_that_are_no_json_are_no_slots() -> None:
    assert slots_load("<html>", 9.0) is None


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (None, "slots: not visible"),
        (Load(0.0, "/slots", 4, 1), "1 of 4 slots busy"),
        (Load(0.0, "/slots /metrics", 4, 4, 2), "4 of 4 slots busy, 2 waiting"),
        (
            Load(0.0, "/metrics", None, 5, 7, 0.5),
            "5 running, 7 waiting, K/V 50%, slots: not visible",
        ),
        (Load(0.0, "/metrics", None, None, 2), "2 waiting, slots: not visible"),
    ],
)
def test_a_load_in_words_also_says_what_is_not_visible(load: Load | None, words: str) -> None:
    assert load_in_words(load) == words
