"""Play recorded events at any speed, forwards and back. Pure: its driver says how time passes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from copy import deepcopy
from itertools import accumulate

from dspark_tui.batch.live import LiveState
from engine.events import Event

CHECKPOINT_EVENTS = 4000
"""Going back folds at most this many events anew."""

SLOWEST, FASTEST = 1 / 64, 1024.0


class Player:
    """state: the recording as a viewer saw it at engine time `now`. speed: recorded seconds for
    each real one."""

    def __init__(self, events: Sequence[Event], speed: float = 1.0) -> None:
        """events: at least one, as they were recorded."""
        self._events = events
        # A time that goes back, as after a restart elsewhere, is played at the moment it came.
        self._times = list(accumulate((event.time for event in events), max))
        self._checkpoints = [LiveState()]
        self._applied = 0
        self.start, self.end = self._times[0], self._times[-1]
        self.now = self.start
        self.state = LiveState()
        self.speed = speed
        self.playing = True
        self.seek(self.start)

    @property
    def length(self) -> float:
        """Recorded seconds."""
        return self.end - self.start

    @property
    def at_end(self) -> bool:
        return self.now >= self.end

    def advance(self, seconds: float) -> None:
        """Let real time pass; the end pauses."""
        if self.playing:
            self.seek(self.now + seconds * self.speed)
            self.playing = not self.at_end

    def toggle(self) -> None:
        """Pause or go on; at the end, start over."""
        if self.at_end:
            self.seek(self.start)
            self.playing = True
        else:
            self.playing = not self.playing

    def seek(self, time: float) -> None:
        """Show the state at an engine time, clamped to the recording."""
        self.now = min(max(time, self.start), self.end)
        wanted = bisect_right(self._times, self.now)
        if wanted < self._applied:
            nearest = min(wanted // CHECKPOINT_EVENTS, len(self._checkpoints) - 1)
            self.state = deepcopy(self._checkpoints[nearest])
            self._applied = nearest * CHECKPOINT_EVENTS
        while self._applied < wanted:
            self.state.apply(self._events[self._applied])
            self._applied += 1
            if self._applied == len(self._checkpoints) * CHECKPOINT_EVENTS:
                self._checkpoints.append(deepcopy(self.state))

    def faster(self, factor: float) -> None:
        self.speed = min(max(self.speed * factor, SLOWEST), FASTEST)
