"""One running request as the server's coroutines see it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from fastapi import Request

from engine.engine import Engine
from engine.server.doorbell import Doorbell
from engine.server.sse import QUIET_SECONDS
from engine.types import Delta, Finish, GenerationRequest, Update


class Generation:
    """Submits a request and follows it; cancels it when the client goes away.

    Raises EngineError when the engine refuses the request.
    """

    def __init__(self, engine: Engine, request: GenerationRequest, http: Request) -> None:
        self._updates: deque[Update] = deque()
        self._bell = Doorbell()
        engine.submit(request, self._receive)
        self._watcher = asyncio.create_task(_cancel_on_disconnect(engine, request.id, http))

    async def __aiter__(self) -> AsyncIterator[Update]:
        """Updates in order, `Finish` last. An empty Delta stands for a long silence."""
        while True:
            if not self._updates and not await self._bell.wait(QUIET_SECONDS):
                yield Delta("", 0)
            while self._updates:
                update = self._updates.popleft()
                yield update
                if isinstance(update, Finish):
                    return

    def _receive(self, update: Update) -> None:
        self._updates.append(update)
        self._bell.ring()


async def _cancel_on_disconnect(engine: Engine, request_id: str, http: Request) -> None:
    # A finished response reads as a disconnect too; cancelling what has ended does nothing.
    while (await http.receive())["type"] != "http.disconnect":
        pass
    engine.cancel(request_id)
