"""A worker without a model: the real protocol, real slots and queue, made-up words.

    python -m tests.tui.scripted_engine --socket /tmp/x.sock --rate 30 --slots 8 --tokens 200

It takes the worker's own options too, so it can stand in for `python -m engine`. Words in the last
user message choose what happens: `#code`, `#cjk`, `#emoji` (what is written), `#fail` (the row ends
with an error), `#die` (the whole process goes, as in a native crash).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from engine.bus import Clock, EventBus
from engine.events import (
    Admitted,
    EngineStatus,
    Event,
    Finished,
    FirstToken,
    ModelInfo,
    Prefill,
    Progress,
    Queued,
    Status,
    Step,
    encode,
)
from engine.types import FinishReason

TEXTS = {
    "#code": "Here is a loop:\n\n```python\nfor n in range(3):\n    print(n * n)\n```\n\nDone. ",
    "#cjk": "光线进入水滴后会发生折射，然后在背面反射，再次折射离开水滴。日本語もここに。",
    "#emoji": "Sun ☺️ and love ❤️ step 1️⃣ family 👩‍👩‍👧 flag 🇩🇪 wave 👍🏽 done. ",
    "": "## Why a circle\nLight enters a **droplet**, bends, reflects off the far side and bends "
    "again on the way out.\n\n- the angle is `42.0` degrees\n- every drop shines back\n\n",
}
FAILS_AFTER = 5
"""Tokens written before `#fail` and `#die` strike."""


@dataclass(slots=True)
class Script:
    """How the double behaves. rate: tokens a second for each row. prefill_rate: prompt tokens a
    second. load_seconds: how long it says "loading". load_error: the load fails with this line."""

    slots: int = 8
    queue_limit: int = 256
    rate: float = 30.0
    tokens: int = 200
    prefill_rate: float = 2000.0
    context: int = 8192
    load_seconds: float = 0.0
    load_error: str | None = None
    die: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class Row:
    id: str
    source: str
    order: str  # the last user message, for its # words
    prompt_tokens: int
    max_tokens: int
    queued: float
    pieces: Iterator[str]
    out: asyncio.Queue[str | Finished] = field(default_factory=asyncio.Queue)
    slot: int = -1
    prefilled: int = 0
    tokens: int = 0


class ScriptedEngine:
    """The batch: rows join free slots in order, all gain one token a tick. Lives on one loop."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.bus = EventBus(Clock(), script.slots, script.queue_limit)
        self.queue: list[Row] = []
        self.running: list[Row] = []
        self._wake = asyncio.Event()

    async def run(self) -> None:
        await self._load()
        period = 1 / self.script.rate
        while not self.script.load_error:
            if not self.queue and not self.running:
                self._wake.clear()
                await self._wake.wait()
            tick = self.bus.clock.now() + period
            self._admit()
            self._prefill(max(1, int(self.script.prefill_rate * period)))
            self._decode(period * 1000)
            await asyncio.sleep(max(0.0, tick - self.bus.clock.now()))

    def submit(self, source: str, messages: list[dict[str, Any]], max_tokens: int) -> Row:
        order = str(messages[-1]["content"])
        text = next(text for mark, text in TEXTS.items() if mark in order)
        row = Row(
            id=f"chatcmpl-{uuid.uuid4().hex[:12]}",
            source=source,
            order=order,
            prompt_tokens=sum(len(str(m["content"]).split()) + 4 for m in messages),
            max_tokens=max_tokens,
            queued=self.bus.clock.now(),
            pieces=cycle(list(text) if "#cjk" in order else text.replace(" ", " \0").split("\0")),
        )
        self.queue.append(row)
        self._publish(Queued, row, source, row.prompt_tokens, max_tokens, len(self.queue))
        self._wake.set()
        return row

    def cancel(self, id: str) -> bool:
        row = next((r for r in self.running + self.queue if r.id == id), None)
        if row is not None:
            self._finish(row, FinishReason.CANCELLED)
        return row is not None

    async def _load(self) -> None:
        script, steps = self.script, 20
        for step in range(steps if script.load_seconds else 0):
            fetch = Progress("fetch", "scripted.gguf", step * 9_300_000, 93_000_000, "bytes")
            load = Progress("load", "weights", (step - 10) * 27, 270, "tensors")
            progress = fetch if step < 10 else load
            self.bus.publish(Status(self.bus.clock.now(), EngineStatus.LOADING, progress))
            await asyncio.sleep(script.load_seconds / steps)
        model = ModelInfo("scripted-1", "scripted", 0, script.context, "fp32", 0, 0)
        status = EngineStatus.FAILED if script.load_error else EngineStatus.OK
        self.bus.publish(Status(self.bus.clock.now(), status, error=script.load_error, model=model))

    def _admit(self) -> None:
        while self.queue and len(self.running) < self.script.slots:
            row = self.queue.pop(0)
            row.slot = min(set(range(self.script.slots)) - {r.slot for r in self.running})
            mid_flight = any(r.tokens for r in self.running)
            self.running.append(row)
            waited = self.bus.clock.now() - row.queued
            self._publish(Admitted, row, row.slot, waited, mid_flight, 0)

    def _prefill(self, budget: int) -> None:
        for row in self.running:
            if row.prefilled < row.prompt_tokens:
                row.prefilled = min(row.prompt_tokens, row.prefilled + budget)
                self._publish(Prefill, row, row.prefilled, row.prompt_tokens, 1.0)

    def _decode(self, milliseconds: float) -> None:
        rows = [r for r in self.running if r.prefilled == r.prompt_tokens]
        if not rows:
            return
        now = self.bus.clock.now()
        gained = {row.id: 1 for row in rows}
        for row in rows:
            if row.tokens == 0:
                self._publish(FirstToken, row)
            row.tokens += 1
            row.out.put_nowait(next(row.pieces))
        self.bus.publish(Step(now, "decode", len(rows), gained, milliseconds))
        for row in rows:
            if row.tokens == FAILS_AFTER and "#die" in row.order:
                self.script.die()
            if row.tokens == FAILS_AFTER and "#fail" in row.order:
                self._finish(row, FinishReason.ERROR, "the script says this row fails [/x]")
            elif row.tokens == row.max_tokens:
                self._finish(row, FinishReason.LENGTH)

    def _finish(self, row: Row, reason: FinishReason, error: str | None = None) -> None:
        (self.running if row in self.running else self.queue).remove(row)
        now = self.bus.clock.now()
        finished = Finished(now, row.id, reason, row.tokens, now - row.queued, error)
        self.bus.publish(finished)
        row.out.put_nowait(finished)

    def _publish(self, event: Callable[..., Event], row: Row, *details: object) -> None:
        self.bus.publish(event(self.bus.clock.now(), row.id, *details))


def create_app(engine: ScriptedEngine) -> FastAPI:
    app = FastAPI()

    @app.get("/health")
    def health() -> Response:
        now = engine.bus.snapshot()
        body = {key: encode(now)[key] for key in ("status", "progress", "error", "model", "slots")}
        return JSONResponse(body, 200 if now.status is EngineStatus.OK else 503)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "scripted-1", "object": "model"}]}

    @app.get("/engine/state")
    def state() -> dict[str, Any]:
        return encode(engine.bus.snapshot())

    @app.get("/engine/events")
    async def events() -> Response:
        return _sse(_events(engine))

    @app.post("/engine/cancel/{id}")
    async def cancel(id: str) -> Response:
        return JSONResponse({"cancelled": engine.cancel(id)})

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body, source = await request.json(), request.headers.get("x-dspark-source", "")
        if engine.bus.snapshot().status is not EngineStatus.OK:
            return _error(503, "the engine is loading", "loading", {"Retry-After": "1"})
        if len(engine.queue) >= engine.script.queue_limit:
            return _error(429, "the queue is full", "queue_full", {"Retry-After": "1"})
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or engine.script.tokens
        row = engine.submit(source, body["messages"], asked)
        if row.prompt_tokens > engine.script.context:
            engine.cancel(row.id)
            message = f"maximum context length is {engine.script.context} tokens"
            return _error(400, message, "context_length_exceeded")
        if body.get("stream"):
            usage = (body.get("stream_options") or {}).get("include_usage", False)
            return _sse(_stream(engine, row, usage), {"X-Request-Id": row.id})
        return JSONResponse(await _whole(row))

    return app


async def _events(engine: ScriptedEngine) -> AsyncIterator[dict[str, Any]]:
    news, loop = asyncio.Event(), asyncio.get_running_loop()

    def notify() -> None:
        loop.call_soon_threadsafe(news.set)

    subscription = engine.bus.subscribe(notify)
    try:
        while True:
            news.clear()
            for event in subscription.drain():
                yield encode(event)
            await news.wait()
            await asyncio.sleep(0.05)  # at most 20 rounds a second, as the real server
    finally:
        subscription.close()


async def _stream(
    engine: ScriptedEngine, row: Row, usage: bool
) -> AsyncIterator[dict[str, Any] | str]:
    base = {"id": row.id, "object": "chat.completion.chunk", "created": 0, "model": "scripted-1"}

    def chunk(delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    try:
        yield chunk({"role": "assistant", "content": ""})
        while isinstance(piece := await row.out.get(), str):
            yield chunk({"content": piece})
    finally:
        engine.cancel(row.id)
    if piece.error:
        yield {"error": {"message": piece.error, "type": "server_error", "code": "engine"}}
        return
    yield chunk({}, piece.reason)
    if usage:
        yield {**base, "choices": [], "usage": _usage(row)}
    yield "[DONE]"


async def _whole(row: Row) -> dict[str, Any]:
    text = ""
    while isinstance(piece := await row.out.get(), str):
        text += piece
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": piece.reason}
    return {"id": row.id, "object": "chat.completion", "choices": [choice], "usage": _usage(row)}


def _usage(row: Row) -> dict[str, int]:
    total = row.prompt_tokens + row.tokens
    counts = {"prompt_tokens": row.prompt_tokens, "completion_tokens": row.tokens}
    return {**counts, "total_tokens": total}


def _sse(
    items: AsyncIterator[dict[str, Any] | str] | AsyncIterator[dict[str, Any]],
    headers: dict[str, str] | None = None,
) -> Response:
    async def frames() -> AsyncIterator[str]:
        async for item in items:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            yield f"data: {text}\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream", headers=headers)


def _error(
    status: int, message: str, code: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return JSONResponse({"error": error}, status, headers)


class ScriptedServer:
    """The engine behind uvicorn on a thread of this process, as a context manager.

    Give it a socket path, or nothing for a free loopback port; `url` says where it listens.
    """

    def __init__(self, script: Script, socket: Path | None = None) -> None:
        script.die = self.crash
        self.script = script
        self.socket = socket
        self.engine: ScriptedEngine
        self._server: uvicorn.Server
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self.engine = ScriptedEngine(self.script)
        self._loop = asyncio.get_running_loop()
        self._server = _server(self.engine, self.socket)
        running = asyncio.create_task(self.engine.run())
        serving = asyncio.create_task(self._server.serve())
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        self._ready.set()
        await serving
        running.cancel()

    @property
    def url(self) -> str:
        if self.socket is not None:
            return f"unix://{self.socket}"
        host, port = self._server.servers[0].sockets[0].getsockname()
        return f"http://{host}:{port}"

    def crash(self) -> None:
        """Go without a word: open streams break off."""
        self._server.force_exit = self._server.should_exit = True
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()  # type: ignore[union-attr]

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(20)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.crash)
        self._thread.join(10)


def _server(engine: ScriptedEngine, socket: Path | None, port: int = 0) -> uvicorn.Server:
    place: dict[str, Any] = {"uds": str(socket)} if socket else {"host": "127.0.0.1", "port": port}
    return uvicorn.Server(
        uvicorn.Config(create_app(engine), lifespan="off", log_level="error", **place)
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripted_engine")
    parser.add_argument("--socket", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slots", "--max-batch", type=int, default=8)
    parser.add_argument("--queue", type=int, default=256)
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--load-seconds", type=float, default=0.0)
    parser.add_argument("--load-error")
    parser.add_argument("--parent-pipe", action="store_true")
    args, _ = parser.parse_known_args()
    script = Script(
        slots=args.slots,
        queue_limit=args.queue,
        rate=args.rate,
        tokens=args.tokens,
        load_seconds=args.load_seconds,
        load_error=args.load_error,
    )
    if args.parent_pipe:
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    asyncio.run(_main(script, args.socket, args.port))


async def _main(script: Script, socket: Path | None, port: int) -> None:
    engine = ScriptedEngine(script)
    running = asyncio.create_task(engine.run())
    await _server(engine, socket, port).serve()
    running.cancel()


if __name__ == "__main__":
    main()
