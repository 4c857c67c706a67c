"""The workbench's memory after a day of eight streaming panes.

A day here is what eight panes get from an engine of 100 tokens a second in eight hours.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys

import psutil

from tests.benchmarks.long_talk import say, talk, workbench

PANES = 8
TOKENS = int(os.environ.get("BENCH_TOKENS", str(100 * 3600 * 8)))
ANSWER = 400
PIECES = 20
CHECKED_EVERY = 10


def main() -> None:
    asyncio.run(measure())


async def measure() -> None:
    async with workbench(PANES) as (app, panes, pilot):
        row("at the start", 0)
        answers = TOKENS // (PANES * ANSWER)
        for number in range(1, answers + 1):
            for pane in panes:
                text = talk(ANSWER)
                turn = pane.conversation.begin("Explain how rainbows form.")
                turn.answer = text
                say(pane.transcript, text, PIECES)
            await app.workers.wait_for_complete()
            await pilot.pause()
            if number * CHECKED_EVERY % answers < CHECKED_EVERY:
                row(f"{number * PANES} answers", number * PANES * ANSWER)
        print(f"largest ever {largest():.0f} MB  (at most 150)")


def row(what: str, tokens: int) -> None:
    print(f"{what:20}{tokens:12,} tokens{resident():8.0f} MB", flush=True)


def resident() -> float:
    """MB of this process in memory now."""
    return float(psutil.Process().memory_info().rss) / 1e6


def largest() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
