"""Record the batch of a server that publishes it, while a bench runs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from dspark_tui.engines.address import Address
from dspark_tui.engines.client import Disconnected, EngineClient
from dspark_tui.engines.client_errors import ClientError, NoEventsError
from engine.events import Snapshot, decode
from engine.proof.recording import Recorder
from engine.state import EngineState

PATIENCE = 5.0
"""Seconds the server has for its first event, and for its last ones after the bench."""


@asynccontextmanager
async def recorded(address: Address, api_key: str | None, path: str | None) -> AsyncIterator[None]:
    """Write the server's events to `path` until the block ends; without a path nothing.

    Raises RecordingError when the file can't be made. What goes wrong later is a line on stderr.
    """
    if path is None:
        yield
        return
    client = EngineClient(address, api_key)
    with Recorder(Path(path)) as recorder:
        follower = _Follower(client, recorder)
        task = asyncio.create_task(follower.run(), name="recorder")
        try:
            await follower.settled()
            yield
            await follower.settled()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.aclose()
    if recorder.problem:
        _say(recorder.problem)


class _Follower:
    """state: the fold of what was written, to know when all that was sent has been heard of."""

    def __init__(self, client: EngineClient, recorder: Recorder) -> None:
        self._client, self._recorder = client, recorder
        self._state = EngineState()
        self._grown = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        try:
            async for event in self._client.events():
                if isinstance(event, Disconnected):
                    if not self._begun:
                        _say(f"nothing is recorded: {event.why}")
                        return
                    _say(f"the recording has a gap: {event.why}")
                    continue
                self._recorder.write(event)
                self._state.apply(event)
                self._grown.set()
        except NoEventsError as error:
            _say(f"nothing is recorded: {error}")
        except ClientError as error:
            _say(f"the recording ended: {error}")
        finally:
            self._over = True
            self._grown.set()

    async def settled(self) -> None:
        """Wait, within reason, until all requests the server knows of were heard of to their end:
        its events come by another way than its answers, and later."""
        with suppress(TimeoutError, ClientError):
            async with asyncio.timeout(PATIENCE):
                await self._until(lambda: self._begun)
                known = await self._known()
                await self._until(lambda: self._heard_all(known))

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not self._over and not condition():
            self._grown.clear()
            await self._grown.wait()

    async def _known(self) -> set[str]:
        """The requests of which the server's own state tells."""
        text = None if self._over else await self._client.look_up("/engine/state")
        state = decode(json.loads(text)) if text else None
        return {r.request for r in state.requests} if isinstance(state, Snapshot) else set()

    def _heard_all(self, known: set[str]) -> bool:
        requests = self._state.requests
        return known <= requests.keys() and all(r.finished is not None for r in requests.values())

    @property
    def _begun(self) -> bool:
        return self._state.wall > 0  # of the snapshot that comes first


def _say(line: str) -> None:
    print(f"dspark-tui bench: {line}", file=sys.stderr)
