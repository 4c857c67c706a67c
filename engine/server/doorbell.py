"""Wake a coroutine from another thread."""

from __future__ import annotations

import asyncio
import contextlib


class Doorbell:
    """Belongs to the loop it is made on; `ring` may be called from any thread and never raises."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        # The engine may outlive the loop by a moment while the server stops.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, timeout: float | None = None) -> bool:
        """True once rung since the last wait, False after `timeout` seconds of silence."""
        try:
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True
