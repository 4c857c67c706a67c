"""Which notices stay on screen when more come: they must not cover what one works on."""

from __future__ import annotations

from typing import Self

from textual.notifications import Notification, Notifications

MOST = 3
"""At once; the oldest make room, those in passing before warnings."""

PASSING = 1.5
"""Seconds that one in passing stays at most once another has come."""


class Notices(Notifications):
    """A notice takes the place of an earlier one that says the same."""

    def add(self, notification: Notification) -> Self:
        for earlier in list(self):
            if earlier.message == notification.message:
                del self[earlier]
            elif _in_passing(earlier):
                leaves = notification.raised_at + PASSING
                earlier.timeout = min(earlier.timeout, leaves - earlier.raised_at)
        for earlier in sorted(self, key=_in_passing, reverse=True)[: max(0, len(self) + 1 - MOST)]:
            del self[earlier]
        return super().add(notification)


def _in_passing(notification: Notification) -> bool:
    return notification.severity == "information"
