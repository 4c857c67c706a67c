"""Fold the engine's events into what the batch panel shows. Pure."""

from __future__ import annotations

from engine.events import Event
from engine.state import EngineState


class LiveState:
    """Mutable; `apply` is the only writer."""

    def __init__(self) -> None:
        self.engine = EngineState()
        self.version = 0

    def apply(self, event: Event) -> None:
        """Take one event into account."""
        self.engine.apply(event)
        self.version += 1

    @property
    def active(self) -> bool:
        """Is any request queued or running?"""
        return False


class EngineClock:
    """Reads the engine's clock from here: the offset is learned from when events arrive."""

    def __init__(self) -> None:
        self._offset = 0.0

    def observe(self, event: Event, local: float) -> None:
        """Note that `event` arrived when the local monotonic clock read `local`."""
        self._offset = local - event.time

    def now(self, local: float) -> float:
        """Engine time at the local monotonic time."""
        return local - self._offset
