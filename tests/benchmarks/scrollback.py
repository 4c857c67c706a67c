"""Scrolling through one transcript of 30,000 tokens, and wrapping it anew for another width."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median

from tests.benchmarks.long_talk import paint, say, talk, workbench

TOKENS = 30_000
STEPS = 200


def main() -> None:
    asyncio.run(measure())


async def measure() -> None:
    async with workbench(1) as (app, (pane,), pilot):
        transcript = pane.transcript
        started = time.perf_counter()
        say(transcript, talk(TOKENS))
        row("shown as it came", time.perf_counter() - started)
        await app.workers.wait_for_complete()
        row("set in type, on its own thread", time.perf_counter() - started)
        await pilot.pause()
        print(f"{transcript.virtual_size.height} rows")
        half_page = transcript.size.height // 2

        def step() -> None:
            transcript.scroll_relative(y=-half_page, animate=False, immediate=True)
            paint(pane)

        times = [timed(step) for _ in range(STEPS)]
        row("half a page back, median", median(times))
        row("half a page back, slowest", max(times))
        row("to the first line", timed(lambda: (transcript.go_to_start(), paint(pane))))
        row("to the end", timed(lambda: (transcript.follow(), paint(pane))))
        widths = [transcript.size.width - 1 - n for n in (40, 0) * 5]
        times = [timed(lambda w=width: transcript._text.rewrap(w)) for width in widths]
        row("wrapped for another width", median(times))


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def row(what: str, seconds: float) -> None:
    print(f"{what:32}{seconds * 1000:9.2f} ms", flush=True)
