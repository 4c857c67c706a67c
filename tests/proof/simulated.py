"""Servers whose behaviour is known, on whatever clock the event loop has.

One step loop plays them all; a `Behaviour` says how it admits, what a step costs and when it lets
answers go. `VirtualLoop` makes an hour of them pass in a moment.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from engine.proof.traffic import Record

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds after which an answer that doesn't end is given up."""


class Break(StrEnum):
    """How a request fails."""

    REFUSED = "refused"
    DROPPED = "dropped"  # half-way through
    ENDLESS = "endless"


@dataclass(frozen=True)
class Behaviour:
    """Times in seconds. width: rows at once. shared: share of a step's cost that a further row does
    not add, 1 for a step that costs the same however wide. joins: whether newcomers enter a batch
    that runs. holds: whether answers leave with the slowest of their batch. window: how long a
    batch is collected before it starts. bursts: all text in one piece. noise: relative, of every
    step; a request's way to the server and back takes up to `network`.
    """

    width: int = 64
    shared: float = 1.0
    joins: bool = True
    holds: bool = False
    window: float = 0.0
    bursts: bool = False
    step: float = 0.02
    prompt: float = 0.04
    noise: float = 0.15
    network: float = 0.004
    flaky: float = 0.0
    breaks: Break = Break.REFUSED


SERIAL = Behaviour(width=1)
CONSTANT = Behaviour()
LOCKSTEP = Behaviour(shared=0.0)
GROUPS = Behaviour(width=3)
STATIC = Behaviour(joins=False, holds=True, window=0.02)
WINDOW = Behaviour(joins=False, window=0.02)
ONE_CHUNK = Behaviour(bursts=True)
SERIAL_ONE_CHUNK = Behaviour(width=1, bursts=True)


@dataclass(eq=False)
class Row:
    """A request in the server."""

    record: Record
    left: int
    done: asyncio.Future[None]
    unread: bool = True


class SimulatedServer:
    """Answers records by a step loop. Use it as a context manager, inside the loop."""

    def __init__(self, behaviour: Behaviour, seed: int) -> None:
        self.behaviour = behaviour
        self._random = random.Random(seed)
        self._queue: list[Row] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SimulatedServer:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def ask(self, record: Record) -> None:
        loop = asyncio.get_running_loop()
        record.submit = loop.time()
        await self._travel()
        broken = self.behaviour.breaks if self._random.random() < self.behaviour.flaky else None
        if broken is not Break.REFUSED:
            await self._answer(record, broken)
        await self._travel()
        if broken:
            record.error = broken
            return
        if self.behaviour.bursts or not record.ask.stream:
            record.arrivals = [loop.time()]
        record.end = loop.time()
        record.reported = record.ask.max_tokens

    async def _answer(self, record: Record, broken: Break | None) -> None:
        lengths = {Break.DROPPED: record.ask.max_tokens // 2, Break.ENDLESS: 10**9}
        length = lengths[broken] if broken else record.ask.max_tokens
        row = Row(record, length, asyncio.get_running_loop().create_future())
        self._queue.append(row)
        self._arrived.set()
        await asyncio.wait([row.done], timeout=PATIENCE if broken else None)
        row.left = min(row.left, 1)  # whoever hangs up frees its row

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.uniform(0, self.behaviour.network))

    async def _run(self) -> None:
        running: list[Row] = []
        while True:
            if not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            await asyncio.sleep(self.behaviour.window)
            running = self._admitted()
            batch = list(running)
            while running:
                await self._step(running)
                running = [row for row in running if self._goes_on(row)]
                if self.behaviour.joins:
                    running += self._admitted(len(running))
            self._release(batch)

    def _admitted(self, busy: int = 0) -> list[Row]:
        room = self.behaviour.width - busy
        admitted, self._queue = self._queue[:room], self._queue[room:]
        return admitted

    async def _step(self, rows: list[Row]) -> None:
        """One forward: prompts that are new are read in it, then every row gains a token."""
        each = self.behaviour.step * (1 - self.behaviour.shared)
        cost = self.behaviour.step + each * (len(rows) - 1)
        cost += self.behaviour.prompt * sum(row.unread for row in rows)
        noise = self.behaviour.noise
        await asyncio.sleep(cost * self._random.uniform(1 - noise, 1 + noise))
        now = asyncio.get_running_loop().time()
        for row in rows:
            row.unread = False
            row.left -= 1
            row.record.arrivals.append(now)

    def _goes_on(self, row: Row) -> bool:
        if row.left == 0 and not self.behaviour.holds:
            row.done.set_result(None)
        return row.left > 0

    def _release(self, batch: list[Row]) -> None:
        for row in batch:
            if not row.done.done():
                row.done.set_result(None)


class VirtualSelector(selectors.DefaultSelector):
    """Never waits: what would have been slept is counted instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits and nothing will happen")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next thing that is due."""

    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def virtually(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end, on a clock that costs no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work())
