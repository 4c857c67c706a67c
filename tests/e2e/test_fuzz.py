"""Whatever the published API document allows, and much that it doesn't: refused or answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests.e2e.waiting import wait_until
from tests.e2e.workers import RunningWorker
from tests.tiny import tiny_llama

ENDLESS = ["/engine/events"]
HOLDS_ALL = ["/engine/pause"]
EXAMPLES = 8
SECONDS = 60
"""Far longer than 64 tokens of a tiny model take, even on a busy machine."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    """Its context is short, so that no request can ask for much."""
    folder = tiny_llama(tmp_path_factory.mktemp("tiny"), max_position_embeddings=64)
    with RunningWorker("--model", folder, "--port", "0") as running:
        assert running.url
        yield running


def test_nothing_makes_it_fail(worker: RunningWorker) -> None:
    document = schemathesis.openapi.from_url(f"{worker.url}/openapi.json")
    asked = set()
    for found in document.exclude(path=[*ENDLESS, *HOLDS_ALL]).get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def probe(case: Any) -> None:
            answer = case.call(timeout=SECONDS)
            assert answer.status_code < 500, answer.text

        probe()
        asked.add(operation.path)
        wait_until(worker.idle, f"the engine is alive after {operation.path}, and nothing runs")
    assert {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/tokenize"} <= asked
