"""The workbench's line to its engine: our own worker or a server elsewhere, ready or not, and why.

Follows the events into the LiveState and knows whether a request can be sent now.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat
from types import ModuleType
from typing import TYPE_CHECKING

from dspark_tui.batch.live import VIEW, LiveState
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.client_errors import ClientError, ConnectionLostError, NoEventsError
from dspark_tui.engines.engine_clock import EngineClock
from dspark_tui.engines.worker import Command, Worker, WorkerPhase, WorkerState
from engine.events import (
    Capability,
    EngineStatus,
    Event,
    Finished,
    ModelInfo,
    Phase,
    Progress,
    Snapshot,
    Status,
)
from engine.types import FinishReason

if TYPE_CHECKING:
    from dspark_tui.engines.client import EngineClient

log = logging.getLogger(__name__)

PROBE_DELAYS = (0.5, 1.0, 2.0, 5.0)
"""Seconds between tries to reach a server that publishes no events."""

LOOK_PERIOD, QUIET_PERIOD = 1.0, 3.0
"""Seconds between two looks at its load, while requests of ours run there and while none do."""


class EngineLink:
    """Start it once the first frame is on screen; close it before the loop ends.

    name: as panes call it, "" for the usual one. ready: set while requests can be sent. problem:
    one line while they can't, "" otherwise. batch_hidden: the server doesn't publish its batch, so
    `live` knows our own requests only, by our stopwatch. on_event: hears what `live` is told.
    """

    def __init__(self, place: Server | Command, name: str = "") -> None:
        """place: a running server, or the command that starts a worker."""
        self.name = name
        self._ours = set[str]()
        self.live = LiveState(self._ours)
        self.clock = EngineClock()
        self.ready = asyncio.Event()
        self.problem = ""
        self.batch_hidden = False
        self.on_change: Callable[[], None] = lambda: None
        self.on_event: Callable[[Event], None] = lambda _: None
        self._server = place if isinstance(place, Server) else None
        self.worker = None if isinstance(place, Server) else Worker(place, self._worker_changed)
        self._client: EngineClient | None = None
        self._follower: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None

    @property
    def client(self) -> EngineClient:
        """The client; only after `ready` was set once."""
        assert self._client is not None
        return self._client

    @property
    def where(self) -> str:
        """As messages name the engine."""
        return str(self._server.address) if self._server is not None else "the engine"

    @property
    def failed(self) -> bool:
        """Will it stay unusable unless somebody calls `restart`?"""
        return self.worker is not None and self.worker.state.phase is WorkerPhase.FAILED

    @property
    def remedy(self) -> str:
        """What is being done about a lost engine."""
        return "starting again" if self.worker is not None else "trying again"

    def now(self) -> float:
        """The engine's clock, read from here."""
        return self.clock.now(time.monotonic())

    async def start(self) -> None:
        if self.worker is not None:
            self.worker.start()
        await self._connect()

    async def _connect(self) -> None:
        """Follow the engine, once there is a place where it can be found."""
        # httpx takes as long to import as Textual: the screen must not wait for it
        client = await asyncio.to_thread(_import_client)
        server = self._server
        if server is None and self.worker is not None and self.worker.socket is not None:
            server = Server(Address.of_socket(self.worker.socket))
        if server is not None and self._client is None:
            self._client = client.EngineClient(
                server.address, server.api_key, model=server.model, headers=server.headers
            )
            self._client.accepted = self._ours
            self._follower = asyncio.create_task(self._watch(), name="events")

    def restart(self) -> None:
        """Have the worker started afresh; elsewhere there is nothing of ours to restart.

        The link's own task does it, whatever becomes of the screen that asked, and one at a time.
        """
        if self.worker is not None and (self._restarting is None or self._restarting.done()):
            self._restarting = asyncio.create_task(self._restart(self.worker), name="restart")

    async def _restart(self, worker: Worker) -> None:
        await worker.restart()
        await self._connect()

    def revive(self) -> None:
        """Start it again if it has given up: something is about to be asked of it."""
        if self.failed:
            self.restart()

    async def close(self) -> None:
        for task in (self._restarting, self._follower):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
        if self.worker is not None:
            await self.worker.close()

    async def _watch(self) -> None:
        try:
            await self._follow()
        except Exception:
            log.exception("the events can't be followed any more")
            self.problem = "the engine's events can't be read; the log says why"
            self.on_change()

    async def _follow(self) -> None:
        try:
            await self._follow_events()
        except NoEventsError:
            await self._watch_from_outside()

    async def _follow_events(self) -> None:
        from dspark_tui.engines.client import Disconnected

        async for event in self.client.events():
            if isinstance(event, Disconnected):
                self._disconnected(event.why)
                continue
            self._observe(event)
            if isinstance(event, Snapshot | Status):
                self._status(event)

    async def _watch_from_outside(self) -> None:
        """Without its events: time our own requests, and look at what it reveals of its load."""
        from dspark_tui.engines.remote import look
        from dspark_tui.engines.stopwatch import Stopwatch

        self.batch_hidden = True
        self.client.stopwatch = Stopwatch(self._observe)
        while True:
            snapshot = self._seen_from_outside(await self._model_once_it_answers())
            self._observe(snapshot)
            self._status(snapshot)
            try:
                while load := await look(self.client, time.monotonic()):
                    if load != self.live.engine.load:
                        self._observe(load)
                    await asyncio.sleep(LOOK_PERIOD if self.live.active else QUIET_PERIOD)
                return  # it reveals nothing
            except ConnectionLostError as error:
                self._lost(str(error))

    async def _model_once_it_answers(self) -> str:
        """Wait for a server without events to list its models; the one requests will name.

        Where that one was given, the server may answer anything.
        """

        delays = chain(PROBE_DELAYS, repeat(PROBE_DELAYS[-1]))
        while True:
            try:
                await self.client.models()
                return await self.client.first_model()
            except ClientError as error:
                if self.client.model and not isinstance(error, ConnectionLostError):
                    return self.client.model
                self.problem = str(error)
                self.on_change()
                await asyncio.sleep(next(delays))

    def _seen_from_outside(self, model: str) -> Snapshot:
        """What is known as an engine's state; what isn't is said as a capability."""
        now = time.monotonic()
        why = f"{self.where} publishes no events: queue and prompt reading look the same"
        return replace(
            self.live.engine.snapshot(now, time.time()),
            status=EngineStatus.OK,
            progress=None,
            error=None,
            model=ModelInfo(model, "", 0, 0, "", 0, 0),
            capabilities=(Capability(now, VIEW, "the batch", "our own requests", why),),
        )

    def _observe(self, event: Event) -> None:
        self.clock.observe(event, time.monotonic())
        self._take(event)

    def _take(self, event: Event) -> None:
        self.live.apply(event)
        self.on_event(event)

    def _status(self, event: Snapshot | Status) -> None:
        if event.status in (EngineStatus.OK, EngineStatus.STUCK):
            self.problem = ""
            self.ready.set()
        else:
            self.ready.clear()
            self.problem = event.error or ""
        self.on_change()

    def _disconnected(self, why: str) -> None:
        """A worker that is starting or has died says more than its silent socket does."""
        if self.worker is None or self.ready.is_set():
            self._lost(why)

    def _worker_changed(self, state: WorkerState) -> None:
        if state.phase in (WorkerPhase.RESTARTING, WorkerPhase.FAILED):
            self._lost(state.reason)
        else:
            self.on_change()

    def _lost(self, why: str) -> None:
        """No engine now: end what ran on it, so that the panel doesn't show lanes growing."""
        self.ready.clear()
        self.problem = why
        now = self.now()
        for request in list(self.live.engine.requests.values()):
            if request.phase is not Phase.FINISHED and not self.batch_hidden:  # the stopwatch does
                completion = now - request.queued
                self._take(
                    Finished(
                        now, request.request, FinishReason.ERROR, request.tokens, completion, why
                    )
                )
        if self.failed:
            self._take(Status(now, EngineStatus.FAILED, error=why))
        else:
            self._take(Status(now, EngineStatus.LOADING, Progress(self.remedy, why)))
        self.on_change()


class MissingLink(EngineLink):
    """Stands for an engine that can't be had, so that a pane bound to it says so and keeps it."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(lambda _: [], name)
        self.problem = problem
        self.live.apply(Status(0.0, EngineStatus.FAILED, error=problem))

    @property
    def failed(self) -> bool:
        return True

    async def start(self) -> None:
        self.on_change()

    def restart(self) -> None:
        self.on_change()


def _import_client() -> ModuleType:
    from dspark_tui.engines import client

    return client
