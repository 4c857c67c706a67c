"""When an app has come to rest, however little of the processor its process gets."""

from __future__ import annotations

import asyncio
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable
from time import monotonic, process_time
from typing import Any

import pytest

SLOT = 0.02
"""Seconds: longer than a frame, so that what waits for the next one is seen."""

AT_REST = 0.001
"""Seconds of work in a slot, at the most: a blinking caret costs less."""

LONGEST_WORK = 60.0
"""Seconds that what is ready may take; a stream could come as fast as it is read."""


class Rest:
    """Takes the place of the pilot's own wait, which takes a process that had no turn for one that
    had nothing to do. Here what is ready, and what threads do for the loop, comes to its end before
    it is asked how much work that was."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._in_threads: set[asyncio.Future[Any]] = set()
        real = BaseEventLoop.run_in_executor

        def noted(
            loop: BaseEventLoop, executor: Any, work: Callable[..., Any], *args: Any
        ) -> asyncio.Future[Any]:
            future = real(loop, executor, work, *args)
            self._in_threads.add(future)
            future.add_done_callback(self._in_threads.discard)
            return future

        patch.setattr(BaseEventLoop, "run_in_executor", noted)
        for module in ("app", "pilot"):
            patch.setattr(f"textual.{module}.wait_for_idle", self.wait)

    async def wait(self, least: float = 0.0, most: float = 1.0) -> None:
        """most: seconds after which an app that keeps working, as one that draws a stream, will
        do."""
        begun = monotonic()
        while True:
            worked = process_time()
            await asyncio.sleep(SLOT)
            await self._all_that_is_under_way()
            passed = monotonic() - begun
            if passed >= most or (passed > least and process_time() - worked < AT_REST):
                return

    async def _all_that_is_under_way(self) -> None:
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        deadline = monotonic() + LONGEST_WORK
        while (ready or self._in_threads) and monotonic() < deadline:
            await asyncio.sleep(0 if ready else SLOT / 4)
