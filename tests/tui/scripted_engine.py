"""An engine without a model behind the real server: real slots and queue, made-up words.

    python -m tests.tui.scripted_engine --socket /tmp/x.sock --rate 30 --slots 8 --tokens 200

It takes the worker's own options too, so it can stand in for `python -m engine`. Words in the last
message choose what happens: `#code`, `#cjk`, `#emoji` (what is written), `#hold` (nothing comes
after the first tokens), `#fail` (the request ends with an error), `#die` (the whole process goes,
as in a native crash).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import uvicorn

from engine.bus import Clock, EventBus, Subscription
from engine.events import (
    Admitted,
    EngineStatus,
    Event,
    Finished,
    FirstToken,
    ModelInfo,
    Paused,
    Prefill,
    Progress,
    Queued,
    Snapshot,
    Status,
    Step,
)
from engine.server.app import create_app
from engine.server.guard import AccessPolicy
from engine.types import (
    Delta,
    EngineUnavailableError,
    Finish,
    FinishReason,
    GenerationRequest,
    QueueFullError,
    Sink,
    Timings,
    Usage,
)
from tests.tui.script import Row, Script, ScriptedModel

NAME = "scripted-1"
STRIKES_AFTER = 5
"""Tokens written before `#hold`, `#fail` and `#die` take effect."""


class ScriptedEngine:
    """Rows join free slots in order and gain one token a tick. Lives on one asyncio loop."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.bus = EventBus(Clock(), script.slots, script.queue_limit)
        self.model: ScriptedModel | None = None
        self.queue: list[Row] = []
        self.running: list[Row] = []
        self.paused = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        await self._load()
        period = 1 / self.script.rate
        while self.model is not None:
            if not self.queue and not self.running:
                self._wake.clear()
                await self._wake.wait()
            tick = self.bus.clock.now() + period
            self._admit()
            self._prefill(max(1, int(self.script.prefill_rate * period)))
            self._decode(period * 1000)
            await asyncio.sleep(max(0.0, tick - self.bus.clock.now()))

    @property
    def longest_row(self) -> int:
        return self.script.context

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        if self.model is None:
            raise EngineUnavailableError("the engine is not ready")
        if len(self.queue) >= self.script.queue_limit:
            raise QueueFullError(f"the queue is full ({len(self.queue)} waiting)", 1)
        row = Row(request, sink, self.bus.clock.now())
        self.queue.append(row)
        prompt, limit = len(request.prompt), request.max_tokens
        self._publish(Queued, request.id, request.source, prompt, limit, len(self.queue))
        self._wake.set()

    def cancel(self, request_id: str) -> bool:
        row = next((r for r in self.running + self.queue if r.request.id == request_id), None)
        if row is not None:
            self._finish(row, FinishReason.CANCELLED)
        return row is not None

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self._publish(Paused, paused)

    def subscribe(self, notify: Callable[[], None]) -> Subscription:
        return self.bus.subscribe(notify)

    def snapshot(self) -> Snapshot:
        return self.bus.snapshot()

    async def _load(self) -> None:
        script, steps = self.script, 20
        for step in range(steps if script.load_seconds else 0):
            fetch = Progress("fetch", f"{NAME}.gguf", step * 9_300_000, 93_000_000, "bytes")
            load = Progress("load", "weights", (step - 10) * 27, 270, "tensors")
            self._publish(Status, EngineStatus.LOADING, fetch if step < 10 else load)
            await asyncio.sleep(script.load_seconds / steps)
        while script.loading:
            await asyncio.sleep(0.01)
        if script.load_error:
            self._publish(Status, EngineStatus.FAILED, None, script.load_error)
            return
        self.model = ScriptedModel(ModelInfo(NAME, "scripted", 0, script.context, "fp32", 0, 0))
        self._publish(Status, EngineStatus.OK, None, None, self.model.info)

    def _admit(self) -> None:
        if len(self.queue) < self.script.together:
            return
        self.script.together = 1
        while self.queue and len(self.running) < self.script.slots and not self.paused:
            row = self.queue.pop(0)
            row.slot = min(set(range(self.script.slots)) - {r.slot for r in self.running})
            mid_flight = any(r.tokens for r in self.running)
            self.running.append(row)
            waited = self.bus.clock.now() - row.queued
            self._publish(Admitted, row.request.id, row.slot, waited, mid_flight, 0)

    def _prefill(self, budget: int) -> None:
        for row in self.running:
            if not row.read:
                total = len(row.request.prompt)
                row.prefilled = min(total, row.prefilled + budget)
                self._publish(Prefill, row.request.id, row.prefilled, total, 1.0)

    def _decode(self, milliseconds: float) -> None:
        rows = [row for row in self.running if row.read and not self._holds(row)]
        for row in rows:
            if row.tokens == 0:
                self._publish(FirstToken, row.request.id)
            row.tokens += 1
            row.sink(Delta(next(row.pieces), 1))
        if rows:
            gained = {row.request.id: 1 for row in rows}
            self._publish(Step, "decode", len(rows), gained, milliseconds)
        for row in rows:
            if row.tokens == STRIKES_AFTER and "#die" in row.orders:
                self.script.die()
            if row.tokens == STRIKES_AFTER and "#fail" in row.orders:
                self._finish(row, FinishReason.ERROR, "the script says this row fails [/x]")
            elif row.tokens == row.request.max_tokens:
                self._finish(row, FinishReason.LENGTH)
            elif row.tokens == self.script.tokens:
                self._finish(row, FinishReason.STOP)

    def _holds(self, row: Row) -> bool:
        return self.script.holding and "#hold" in row.orders and row.tokens == STRIKES_AFTER

    def _finish(self, row: Row, reason: FinishReason, error: str | None = None) -> None:
        (self.running if row in self.running else self.queue).remove(row)
        seconds = self.bus.clock.now() - row.queued
        self._publish(Finished, row.request.id, reason, row.tokens, seconds, error)
        usage = Usage(len(row.request.prompt), row.tokens)
        row.sink(Finish(reason, usage, Timings(None, None, seconds), error))

    def _publish(self, event: Callable[..., Event], *details: object) -> None:
        self.bus.publish(event(self.bus.clock.now(), *details))


class ScriptedServer:
    """The engine behind the real HTTP application, on a thread of this process.

    Give it a socket path, or nothing for a free loopback port; `url` says where it listens.
    """

    def __init__(
        self,
        script: Script,
        socket: Path | None = None,
        port: int = 0,
        api_key: str | None = None,
    ) -> None:
        self.script, self.socket, self.port = script, socket, port
        self.policy = AccessPolicy(hosts=None, api_key=api_key)
        self.engine: ScriptedEngine
        self._server: uvicorn.Server
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)

    async def serve(self) -> None:
        """Run until `crash`, or until a signal where uvicorn may catch it."""
        self._loop = asyncio.get_running_loop()
        self.engine = ScriptedEngine(self.script)
        app = create_app(self.engine, NAME, self.policy)  # type: ignore[arg-type]
        place = {"uds": str(self.socket)} if self.socket else {"port": self.port}
        config = uvicorn.Config(app, lifespan="off", log_level="error", **place)
        self._server = uvicorn.Server(config)
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
            connection.transport.abort()

    def __enter__(self) -> Self:
        self.script.die = self.crash
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.crash)
        self._thread.join(60)


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
    script = Script(args.slots, args.queue, args.rate, args.tokens)
    script.load_seconds, script.load_error = args.load_seconds, args.load_error
    if args.parent_pipe:
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    asyncio.run(ScriptedServer(script, args.socket, args.port).serve())


if __name__ == "__main__":
    main()
