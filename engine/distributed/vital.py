"""Is a rank alive and keeping up? Pure: no clock, no threads."""

from __future__ import annotations

from dataclasses import dataclass

BEAT_SECONDS = 1.0
"""How often a rank says that it is alive."""

SILENCE_SECONDS = 7.0
"""A rank not heard of for so long is lost: its process is stopped, or its machine or network."""

LOADING_SILENCE_SECONDS = 120.0
"""The same while it loads: libraries and disks may hold up all of a process."""

BEHIND_SECONDS = 7.0
"""A rank that stays behind rank 0 for so long is stuck. All ranks wait for each other in every
layer, so a slow one is hardly ever a message behind."""

STANDSTILL_SECONDS = 120.0
"""When no rank moves for so long within a turn, they wait for each other for ever."""


@dataclass(slots=True)
class Vital:
    """What is known of one rank. place: its place in the record. heard, level: when it was heard of
    last, and when it was seen to move or to be level with rank 0."""

    heard: float
    level: float
    place: int = 0

    def beat(self, place: int, now: float) -> None:
        self.heard = now
        if place != self.place:
            self.place, self.level = place, now

    def complaint(self, leading: int, now: float, silence: float = SILENCE_SECONDS) -> str | None:
        """What is wrong, rank 0 being at place `leading`; None if nothing is. silence: seconds a
        rank may not be heard of."""
        if self.place >= leading:
            self.level = now
        if now - self.heard > silence:
            return f"was not heard of for {silence:.0f} s"
        if now - self.level > BEHIND_SECONDS:
            return f"is stuck: it has been behind for {BEHIND_SECONDS:.0f} s"
        return None
