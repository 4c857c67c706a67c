"""The engine's clock, read from another process. Pure."""

from __future__ import annotations

from engine.events import Event, Snapshot


class EngineClock:
    """Reads the engine's clock from here. The least delayed event since a snapshot sets it."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._known = False

    def observe(self, event: Event, local: float) -> None:
        """Note that `event` arrived when the local monotonic clock read `local`."""
        offset = local - event.time
        restarted = isinstance(event, Snapshot)
        self._offset = offset if restarted or not self._known else min(self._offset, offset)
        self._known = True

    def now(self, local: float) -> float:
        """Engine time at the local monotonic time; 0 before any event."""
        return local - self._offset if self._known else 0.0
