"""When an app has come to rest, however little of the processor its process gets."""

from __future__ import annotations

import asyncio
from time import monotonic, process_time

SLOT = 0.02
"""Seconds: longer than a frame, so that what waits for the next one is seen."""

AT_REST = 0.001
"""Seconds of work in a slot, at the most: a blinking caret costs less."""

LONGEST_WORK = 60.0
"""Seconds that what is ready may take; a stream could come as fast as it is read."""


async def at_rest(least: float = 0.0, most: float = 1.0) -> None:
    """In place of the pilot's own wait, which takes a process that had no turn for one that had
    nothing to do: here what is ready runs to its end before its time is taken.

    most: seconds after which an app that keeps working, as one that draws a stream, will do.
    """
    begun = monotonic()
    while True:
        worked = process_time()
        await asyncio.sleep(SLOT)
        await _all_that_is_ready()
        passed = monotonic() - begun
        if passed >= most or (passed > least and process_time() - worked < AT_REST):
            return


async def _all_that_is_ready() -> None:
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    deadline = monotonic() + LONGEST_WORK
    while ready and monotonic() < deadline:
        await asyncio.sleep(0)
