"""Servers that are not ours: OpenAI's chat, and what other makers publish of their load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="m"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{model_name="m"}} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{model_name="m"}} 0.25
"""


@dataclass
class ForeignServer:
    """Streams `tokens` words, one every `period` seconds. slots, metrics: what it publishes."""

    tokens: int = 40
    period: float = 0.002
    slots: int = 0
    metrics: str = ""
    running: int = 0
    paths: list[str] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.middleware("http")
        async def note(request: Request, call_next):  # type: ignore[no-untyped-def]
            self.paths.append(request.url.path)
            return await call_next(request)

        @app.get("/v1/models")
        def models() -> dict[str, object]:
            return {"data": [{"id": "elsewhere-7b"}, {"id": "elsewhere-70b"}]}

        @app.post("/v1/chat/completions")
        async def chat(request: Request) -> StreamingResponse:
            self.bodies.append(await request.json())
            self.headers.append(dict(request.headers))
            return StreamingResponse(self._answer(), media_type="text/event-stream")

        if self.slots:

            @app.get("/slots")
            def slots() -> list[dict[str, object]]:
                return [
                    {"id": n, "is_processing": n < self.running, "prompt": "secret"}
                    for n in range(self.slots)
                ]

        if self.metrics:

            @app.get("/metrics")
            def metrics() -> Response:
                return Response(self.metrics.format(running=self.running), media_type="text/plain")

        return app

    async def _answer(self) -> AsyncIterator[str]:
        self.running += 1
        try:
            for _ in range(self.tokens):
                yield _frame({"choices": [{"delta": {"content": "word "}, "finish_reason": None}]})
                await asyncio.sleep(self.period)
            yield _frame({"choices": [{"delta": {}, "finish_reason": "length"}]})
            yield _frame({"choices": [], "usage": {"completion_tokens": self.tokens}})
            yield "data: [DONE]\n\n"
        finally:
            self.running -= 1


def _frame(value: dict[str, object]) -> str:
    return f"data: {json.dumps(value)}\n\n"
