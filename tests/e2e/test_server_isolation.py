"""A fault in one request, seen by HTTP clients of the real engine: the others never notice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import mlx.core as mx
import openai
import pytest

import engine.row
from engine.engine import Engine
from engine.models.load import load
from engine.sampling import Processor, processors
from engine.server.guard import AccessPolicy
from engine.types import EngineSettings, SamplingParams
from tests.e2e.conftest import ThreadedServer
from tests.e2e.waiting import wait_until
from tests.tiny import tiny_llama

FAULTY_SEED = 13
CHAT = [{"role": "user", "content": "Tell me about slots."}]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tiny_llama(tmp_path_factory.mktemp("model"), ends=False)
    engine = Engine(lambda report: load(folder, "tiny", "auto", report), EngineSettings(4))
    engine.start()
    wait_until(lambda: engine.model, "the model is loaded")
    with ThreadedServer(engine, AccessPolicy()) as server:  # type: ignore[arg-type]
        yield server.url
    engine.close()


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests with one seed get a processor that raises."""

    def boom(logits: mx.array) -> mx.array:
        raise RuntimeError("the processor broke")

    def chosen(params: SamplingParams) -> list[Processor]:
        return [boom] if params.seed == FAULTY_SEED else processors(params)

    monkeypatch.setattr(engine.row, "processors", chosen)


def test_one_rows_exception_is_its_clients_500_and_nobody_elses(url: str, faulty: None) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    healthy: list[str | None] = []

    def stream() -> None:
        chunks = client.chat.completions.create(
            model="tiny", messages=CHAT, max_tokens=200, stream=True
        )
        healthy.extend(chunk.choices[0].finish_reason for chunk in chunks)

    other = threading.Thread(target=stream)
    other.start()
    wait_until(lambda: len(healthy) > 3, "the healthy stream runs")
    with pytest.raises(openai.InternalServerError, match="the processor broke"):
        client.chat.completions.create(model="tiny", messages=CHAT, seed=FAULTY_SEED)
    with pytest.raises(openai.APIError, match="the processor broke"):
        list(
            client.chat.completions.create(
                model="tiny", messages=CHAT, seed=FAULTY_SEED, stream=True
            )
        )
    other.join()

    assert healthy[-1] == "length"
    assert httpx.get(f"{url}/health").json()["status"] == "ok"
    again = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=3)
    assert again.usage is not None
    assert again.usage.completion_tokens == 3
