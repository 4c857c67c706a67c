"""Requests leave one by one, in the order they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Trace = Callable[[str, object], Awaitable[None]]
"""An httpcore trace: called with the name of each step of a request, and its details."""

SENT = "send_request_body.complete"


class Turnstile:
    """Without it, connections opened at once would race, and slots be given out at random.

    Only the sending is one after the other; nobody waits for an answer.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[Trace]:
        """Wait for one's turn. It ends when the given trace sees the request gone, or here."""
        await self._lock.acquire()
        inside = True

        async def trace(step: str, _: object) -> None:
            nonlocal inside
            if inside and step.endswith(SENT):
                inside = False
                self._lock.release()

        try:
            yield trace
        finally:
            if inside:
                self._lock.release()
