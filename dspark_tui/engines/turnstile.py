"""Requests leave one by one, in the order they came."""

from __future__ import annotations

import asyncio

SENT = "send_request_body.complete"
"""How the names of httpcore's trace events end when all of a request is out."""


class Turnstile:
    """Without it, connections opened at once would race, and slots be given out at random."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()


class Turn:
    """One request's way through. Use it as a context; `leave` lets the next one go, once."""

    def __init__(self, turnstile: Turnstile) -> None:
        self._lock = turnstile.lock
        self._inside = False

    async def __aenter__(self) -> Turn:
        await self._lock.acquire()
        self._inside = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        if self._inside:
            self._inside = False
            self._lock.release()

    async def trace(self, step: str, _: object) -> None:
        """For httpcore: leave as soon as the request is sent, however late its answer."""
        if step.endswith(SENT):
            self.leave()
