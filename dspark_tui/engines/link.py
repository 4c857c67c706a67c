"""The workbench's line to its engine: our own worker or a server elsewhere, ready or not, and why.

Follows the events into the LiveState and knows whether a request can be sent now.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Set
from contextlib import suppress
from importlib import import_module
from itertools import chain, repeat
from typing import TYPE_CHECKING

from dspark_tui.batch.live import LiveState
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.client_errors import ClientError, ConnectionLostError, NoEventsError
from dspark_tui.engines.engine_clock import EngineClock
from dspark_tui.engines.worker import Command, Worker, WorkerPhase, WorkerState
from engine.events import (
    EngineStatus,
    Event,
    Finished,
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

END_EVENT_LIMIT = 0.5
"""Seconds to wait for the event of an answer's end: some servers' never comes."""

LOOK_PERIOD, QUIET_PERIOD = 1.0, 3.0
"""Seconds between two looks at its load, while requests of ours run there and while none do."""


AskedBefore = Callable[[Set[str]], Set[str]]
"""Gives those of the requests that were sent from here before the program was started."""


class EngineLink:
    """Start it once the first frame is on screen; close it before the loop ends.

    name: as panes call it, "" for the usual one. ready: set while requests can be sent. problem:
    one line while they can't, "" otherwise. batch_hidden: the server doesn't publish its batch, so
    `live` knows our own requests only, by our stopwatch. on_event: hears what `live` is told.
    asked_before: see `recognize`.
    """

    def __init__(self, place: Server | Command, name: str = "") -> None:
        """place: a running server, or the command that starts a worker."""
        self.name = name
        self.live = LiveState(shared=True)
        self.clock = EngineClock()
        self.ready = asyncio.Event()
        self.problem = ""
        self.batch_hidden = False
        self.on_change: Callable[[], None] = lambda: None
        self.on_event: Callable[[Event], None] = lambda _: None
        self.asked_before: AskedBefore = lambda _: set()
        self._ends: dict[str, asyncio.Event] = {}  # of requests that somebody waits for
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
    def place(self) -> str:
        """As titles name it, "" for a worker of our own."""
        return self._server.address.short if self._server is not None else ""

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

    async def told_of_end(self, request: str) -> None:
        """Wait until the events tell of the request's end: they come by another way than the
        answer. Returns at once if they know nothing of it, and after a moment if they fail to."""
        if self._runs(request):
            told = self._ends.setdefault(request, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout(END_EVENT_LIMIT):
                    await told.wait()
            self._ends.pop(request, None)

    def recognize(self) -> None:
        """Claim requests of an earlier start that the engine still tells of."""
        if strangers := self.live.strangers:
            self.live.claim(self.asked_before(strangers))

    async def start(self) -> None:
        if self.worker is not None:
            self.worker.start()
        await self._connect()

    async def _connect(self) -> None:
        """Follow the engine, once there is a place where it can be found."""
        # httpx takes as long to import as Textual: the screen must not wait for it
        client = await asyncio.to_thread(import_module, "dspark_tui.engines.client")
        server = self._server
        if server is None and self.worker is not None and self.worker.socket is not None:
            server = Server(Address.of_socket(self.worker.socket))
        if server is not None and self._client is None:
            self._client = client.EngineClient(
                server.address,
                server.api_key,
                model=server.model,
                headers=server.headers,
                on_accepted=self._accepted,
            )
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
        from dspark_tui.engines.remote import look, seen_from_outside
        from dspark_tui.engines.stopwatch import Stopwatch

        self.batch_hidden = True
        self.client.stopwatch = Stopwatch(self._observe)
        while True:
            model = await self._model_once_it_answers()
            snapshot = seen_from_outside(self.live.engine, model, self.where)
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

    def _observe(self, event: Event) -> None:
        self.clock.observe(event, time.monotonic())
        self._take(event)
        if isinstance(event, Snapshot):
            self.recognize()

    def _take(self, event: Event) -> None:
        self.live.apply(event)
        for request, told in self._ends.items():
            if not self._runs(request):
                told.set()
        self.on_event(event)

    def _runs(self, request: str) -> bool:
        state = self.live.engine.requests.get(request)
        return state is not None and state.finished is None

    def _accepted(self, request: str) -> None:
        """Where the batch is hidden, no event will ever name it."""
        if not self.batch_hidden:
            self.live.claim([request])

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
