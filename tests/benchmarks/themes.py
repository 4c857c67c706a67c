"""Switching themes while eight panes hold 600 Markdown blocks between them."""

from __future__ import annotations

import asyncio
import os
import time
from statistics import median

from tests.benchmarks.long_talk import SECTION, paint, say, workbench

PANES = 8
BLOCKS = 600
BLOCKS_EACH = 8  # of a section: heading, paragraph, two lists, table, code, quote, and its prompt
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))


def main() -> None:
    asyncio.run(measure())


async def measure() -> None:
    async with workbench(PANES) as (app, panes, pilot):
        sections = -(-BLOCKS // BLOCKS_EACH)
        for n in range(sections):
            say(panes[n % PANES].transcript, SECTION.format(n=n))
        await app.workers.wait_for_complete()
        while "paper" not in app.available_themes:
            await pilot.pause(0.05)
        times = []
        for n in range(ROUNDS):
            started = time.perf_counter()
            app.theme = ("paper", "ember")[n % 2]
            await pilot.pause()
            for pane in panes:
                paint(pane)
            times.append(time.perf_counter() - started)
        print(f"theme switch, {sections * BLOCKS_EACH} blocks in {PANES} panes:", end=" ")
        print(f"median {median(times):.3f} s, slowest {max(times):.3f} s  (at most 0.30)")
