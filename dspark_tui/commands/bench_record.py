"""Record the batch of a server that publishes it, while a bench runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from dspark_tui.engines.address import Address
from dspark_tui.engines.client import Disconnected, EngineClient
from dspark_tui.engines.client_errors import ClientError, NoEventsError
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
        """Wait, within reason, until the server's state is known and nothing runs in it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not self._over and not self._idle:
                    self._grown.clear()
                    await self._grown.wait()

    @property
    def _begun(self) -> bool:
        return self._state.wall > 0  # of the snapshot that comes first

    @property
    def _idle(self) -> bool:
        requests = self._state.requests.values()
        return self._begun and all(request.finished is not None for request in requests)


def _say(line: str) -> None:
    print(f"dspark-tui bench: {line}", file=sys.stderr)
