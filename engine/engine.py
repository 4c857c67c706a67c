"""The engine: submit, cancel, subscribe, close; one thread that owns every MLX array.

MLX arrays are bound to the thread that made them, so the model is loaded, run and dropped on the
engine thread, and only Python values cross. Everything another thread wants done arrives in the
inbox; an idle engine sleeps on it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from engine.bus import Clock, EventBus, Subscription
from engine.events import EngineStatus, Paused, Progress, Queued, Snapshot, Status, Warning
from engine.models.errors import one_line
from engine.types import (
    EngineSettings,
    EngineUnavailableError,
    GenerationRequest,
    KvUse,
    QueueFullError,
    Sink,
)
from engine.watchdog import Watchdog

if TYPE_CHECKING:
    from engine.loop import Loop
    from engine.models.load import LoadedModel

log = logging.getLogger(__name__)

Report = Callable[[Progress], None]
Loader = Callable[[Report], "LoadedModel"]
"""Loads the model on the engine thread, reporting progress. Raises with a one-line message."""


class Engine:
    """The thread-safe face of the loop."""

    def __init__(self, loader: Loader, settings: EngineSettings) -> None:
        self._loader = loader
        self._settings = settings
        self._clock = Clock()
        self._bus = EventBus(self._clock, settings.max_batch, settings.queue_limit)
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._live: set[str] = set()
        self._loop: Loop | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine")
        self._watchdog = Watchdog(settings.stuck_after, self._clock.now, self._report_stuck)

    def start(self) -> None:
        """Start the engine thread, which loads the model first; returns at once."""
        self._thread.start()
        self._watchdog.start()

    @property
    def model(self) -> LoadedModel | None:
        """The loaded model (tokenizer and ModelInfo are safe from any thread), None before."""
        return self._loop.model if self._loop else None

    @property
    def longest_row(self) -> int:
        """Tokens, prompt and answer together, that one request may have; 0 before loading."""
        return self._loop.longest_row if self._loop else 0

    @property
    def kv_use(self) -> KvUse:
        """What the running requests take of the memory for K/V."""
        return self._loop.kv_use if self._loop else KvUse()

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        """Queue a request. Thread-safe, returns at once; exactly one `Finish` will follow.

        Raises QueueFullError, ContextLengthError or EngineUnavailableError before any compute.
        """
        loop = self._available()
        loop.check(request)
        with self._lock:
            if self._loop is not loop:
                raise EngineUnavailableError("the engine is stopping")
            if len(self._live) >= loop.slots + self._settings.queue_limit:
                waiting = self._settings.queue_limit
                raise QueueFullError(f"the queue is full ({waiting} waiting)", loop.retry_after())
            position = max(len(self._live) - loop.running, 0) + 1
            self._live.add(request.id)
            now = self._clock.now()
            self._bus.publish(_queued(request, now, position))
            self._inbox.put(partial(self._enqueue, loop, request, sink, now))

    def cancel(self, request_id: str) -> bool:
        """Ask a queued, prefilling or decoding request to end. False if it is not known."""
        with self._lock:
            loop = self._loop
            if loop is None or request_id not in self._live:
                return False
            self._inbox.put(partial(loop.cancel, request_id))
            return True

    def pause(self, paused: bool) -> None:
        """Hold admissions, or go on with them. Running requests go on; new ones wait in the queue.

        Requests submitted from now on find it so, whatever the engine is busy with. Raises
        EngineUnavailableError where nothing can run anyway.
        """
        with self._lock:  # what is told last is what is done last
            self._inbox.put(partial(self._available().pause, paused))
            if paused is not self.snapshot().paused:
                self._bus.publish(Paused(self._clock.now(), paused))

    def subscribe(self, notify: Callable[[], None]) -> Subscription:
        return self._bus.subscribe(notify)

    def snapshot(self) -> Snapshot:
        return self._bus.snapshot()

    def close(self) -> None:
        """End every request with CANCELLED, drop the model on its own thread, join the thread."""
        if not self._closing.is_set():
            self._closing.set()
            self._announce(EngineStatus.STOPPING)
        self._watchdog.close()
        self._inbox.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join()

    @staticmethod
    def _enqueue(loop: Loop, request: GenerationRequest, sink: Sink, queued: float) -> None:
        loop.enqueue(request, sink, queued)

    def _available(self) -> Loop:
        loop = self._loop
        if loop is None or loop.failed or self._closing.is_set():
            snapshot = self.snapshot()
            raise EngineUnavailableError(snapshot.error or f"the engine is {snapshot.status}")
        return loop

    def _run(self) -> None:
        try:
            self._work()
        finally:
            _release_device()

    def _work(self) -> None:
        try:
            loop = self._load()
        except Exception as error:
            if not self._closing.is_set():
                log.exception("loading failed")
                self._announce(EngineStatus.FAILED, error=str(error))
            return
        while not self._closing.is_set():
            try:
                self._receive(wait=loop.idle)
                with self._watchdog.watching():
                    loop.turn()
            except Exception as error:  # of the loop itself: it copes with what fails in a turn
                log.exception("the engine's loop failed")
                loop.fail(f"the engine failed: {one_line(error)}")
        with self._lock:
            self._loop = None  # from here on nothing more arrives in the inbox
        self._receive(wait=False)
        loop.stop("the engine is stopping")

    def _load(self) -> Loop:
        loaded = self._loader(self._report)
        self._report(Progress("warm up", loaded.info.id))
        self._loop = self._new_loop(loaded)
        self._announce(EngineStatus.OK)
        return self._loop

    def _new_loop(self, loaded: LoadedModel) -> Loop:
        from engine.loop import Loop  # imports MLX, which the BLAS must precede

        return Loop(loaded, self._settings, self._bus, self._clock, self._forget)

    def _receive(self, wait: bool) -> None:
        """Run what other threads asked for; with `wait`, sleep until there is something."""
        if wait:
            self._inbox.get()()
        while not self._inbox.empty():
            self._inbox.get()()

    def _forget(self, request_id: str) -> None:
        with self._lock:
            self._live.discard(request_id)

    def _report(self, progress: Progress) -> None:
        if self._closing.is_set():
            raise EngineUnavailableError("stopped while loading")
        self._bus.publish(Status(self._clock.now(), EngineStatus.LOADING, progress))

    def _report_stuck(self, seconds: float) -> None:
        loop = self._loop
        if loop is None or loop.failed or self._closing.is_set():
            return
        if not seconds:
            self._announce(EngineStatus.OK)
            return
        message = f"stuck for {seconds:.0f} s in {loop.doing}"
        if self.snapshot().status is not EngineStatus.STUCK:
            log.warning(message)
            self._bus.publish(Warning(self._clock.now(), "stuck", message))
        self._announce(EngineStatus.STUCK, error=message)

    def _announce(self, status: EngineStatus, error: str | None = None) -> None:
        loop = self._loop
        model, slots = (loop.model.info, loop.slots) if loop else (None, None)
        now = self._clock.now()
        self._bus.publish(Status(now, status, error=error, model=model, slots=slots))


def _queued(request: GenerationRequest, now: float, position: int) -> Queued:
    prompt, limit = len(request.prompt), request.max_tokens
    return Queued(now, request.id, request.source, prompt, limit, position)


def _release_device() -> None:
    """End MLX's worker threads of this thread's streams: the process aborts on exit otherwise."""
    import mlx.core as mx

    mx.clear_streams()
