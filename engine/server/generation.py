"""One answer's running requests as the server's coroutines see them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial

from fastapi import Request

from engine.engine import Engine
from engine.server.doorbell import Doorbell
from engine.server.logs import note
from engine.server.metrics import Metrics
from engine.server.sse import QUIET_SECONDS
from engine.types import Delta, EngineError, Finish, GenerationRequest, Update


class Generation:
    """Submits an answer's requests and follows them; cancels them when the client goes away.

    requests: as submitted. Raises EngineError when the engine refuses one; none runs then.
    """

    def __init__(
        self, engine: Engine, requests: Sequence[GenerationRequest], http: Request
    ) -> None:
        self._engine = engine
        self.requests = requests
        self._ids = [request.id for request in requests]
        self._updates: deque[tuple[int, Update]] = deque()
        self._bell = Doorbell()
        self._metrics: Metrics = http.app.state.metrics
        self._counted = [0] * len(requests)  # tokens, by the metrics
        self._submit(requests)
        note(requests, engine, prompts=http.app.state.log_prompts)
        self._watcher = asyncio.create_task(self._cancel_on_disconnect(http))

    async def __aiter__(self) -> AsyncIterator[tuple[int, Update]]:
        """(place of the request, update) as they come, one `Finish` for each request. An empty
        Delta stands for a long silence."""
        running = len(self._ids)
        while running:
            if not self._updates and not await self._bell.wait(QUIET_SECONDS):
                yield 0, Delta("", 0)
            while self._updates:
                index, update = self._updates.popleft()
                running -= isinstance(update, Finish)
                yield index, update

    def cancel(self) -> None:
        """End whatever still runs."""
        for request_id in self._ids:
            self._engine.cancel(request_id)

    def _submit(self, requests: Sequence[GenerationRequest]) -> None:
        try:
            for index, request in enumerate(requests):
                self._engine.submit(request, partial(self._receive, index))
        except EngineError:
            self.cancel()
            raise

    def _receive(self, index: int, update: Update) -> None:
        if isinstance(update, Finish):
            self._metrics.ended(update, self._counted[index])
        elif isinstance(update, Delta):
            self._counted[index] += update.tokens
            self._metrics.generated(update.tokens)
        self._updates.append((index, update))
        self._bell.ring()

    async def _cancel_on_disconnect(self, http: Request) -> None:
        # A finished response reads as a disconnect too; cancelling what has ended does nothing.
        while (await http.receive())["type"] != "http.disconnect":
            pass
        self.cancel()
