"""Hand the engine's events to subscribers without ever waiting for one of them."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable

from engine.events import Event, Snapshot, Step
from engine.state import EngineState

BACKLOG_LIMIT = 4096
"""Undrained events a subscriber may hold; beyond that it is dropped to a fresh snapshot."""


class Clock:
    """The engine's monotonic clock, in seconds, with one wall-clock anchor taken at creation."""

    def __init__(self) -> None:
        self._wall_offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic()

    def wall(self, at: float) -> float:
        """Unix seconds at the engine time `at`."""
        return at + self._wall_offset


class Subscription:
    """One subscriber's backlog. `drain` may be called from any thread."""

    def __init__(self, bus: EventBus, notify: Callable[[], None]) -> None:
        self._bus = bus
        self.notify = notify
        self._backlog: deque[Event] = deque()
        self._lagging = True

    def drain(self) -> list[Event]:
        """All events since the last call, decode steps merged. The first call, and the first after
        falling behind, starts with a snapshot that stands for everything before it."""
        with self._bus.lock:
            events = list(self._backlog)
            self._backlog.clear()
            if self._lagging:
                self._lagging = False
                return [self._bus.snapshot_locked()]
        return coalesce(events)

    def close(self) -> None:
        self._bus.drop(self)

    def push(self, event: Event) -> None:
        """Called by the bus, its lock held."""
        if self._lagging:
            return
        if len(self._backlog) >= BACKLOG_LIMIT:
            self._backlog.clear()
            self._lagging = True
            return
        self._backlog.append(event)


class EventBus:
    """Keeps the engine's state and passes each event to all subscribers. Thread-safe."""

    def __init__(self, clock: Clock, slots: int, queue_limit: int) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self._state = EngineState(slots=slots, queue_limit=queue_limit, pid=os.getpid())
        self._subscriptions: list[Subscription] = []

    def publish(self, event: Event) -> None:
        with self.lock:
            self._state.apply(event)
            subscriptions = list(self._subscriptions)
            for subscription in subscriptions:
                subscription.push(event)
        for subscription in subscriptions:
            subscription.notify()

    def subscribe(self, notify: Callable[[], None]) -> Subscription:
        """notify: called from the publishing thread after every event; must return at once."""
        subscription = Subscription(self, notify)
        with self.lock:
            self._subscriptions.append(subscription)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        with self.lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def snapshot(self) -> Snapshot:
        with self.lock:
            return self.snapshot_locked()

    def snapshot_locked(self) -> Snapshot:
        """As `snapshot`, for callers that hold the lock."""
        now = self.clock.now()
        return self._state.snapshot(now, self.clock.wall(now))


def coalesce(events: list[Event]) -> list[Event]:
    """Merge each run of consecutive steps of one kind and width; all else keeps its place."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            isinstance(event, Step)
            and isinstance(last, Step)
            and (event.kind, event.width) == (last.kind, last.width)
        ):
            merged[-1] = _merge(last, event)
        else:
            merged.append(event)
    return merged


def _merge(first: Step, second: Step) -> Step:
    tokens = dict(first.tokens)
    for request, gained in second.tokens.items():
        tokens[request] = tokens.get(request, 0) + gained
    return Step(
        time=second.time,
        kind=second.kind,
        width=second.width,
        tokens=tokens,
        milliseconds=first.milliseconds + second.milliseconds,
        steps=first.steps + second.steps,
    )
