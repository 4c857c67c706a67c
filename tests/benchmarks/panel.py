"""What the batch panel costs the workbench: its processor time with the panel drawn and without.

In a real pseudo terminal of 200×50, a scripted engine has eight requests of 30 tokens/s each:
somebody else's while our panes are idle, then those of eight panes of ours. The panel is drawn four
times a second for one turn and left as it is for the next, while all else goes on; neighbouring
turns are compared.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from statistics import median

from tests.benchmarks.ui_load import (
    PANES,
    RATE,
    Terminal,
    panes,
    row,
    serving,
    whole_lines,
    workbench,
)

PAIRS = 8
TURN = 2.0
"""Seconds, in each of which the panel is drawn eight times or not at all."""
MOST = "3"


def main() -> None:
    tokens = int(RATE * (2 * PAIRS * TURN + 20))
    with serving(tokens) as folder:
        ask = [sys.executable, "-m", "dspark_tui", "--json", "-p", "hello", *panes(tokens)]
        others = subprocess.Popen(
            [*ask, "--attach", f"unix://{folder}/e.sock"], stdout=subprocess.DEVNULL
        )
        try:
            compare("somebody else's requests", folder, [])
        finally:
            others.terminate()
            others.wait()
    with serving(tokens) as folder:
        compare("eight panes", folder, ["-p", "hello", *panes(tokens)])


def compare(what: str, folder: Path, options: list[str]) -> None:
    turns = folder / "turns"
    turns.touch()
    terminal = Terminal(folder, ["tests.benchmarks.panel", str(turns)], options)
    while len(lines := whole_lines(turns)) < 2 * PAIRS:
        terminal.drain(0.2)
    terminal.close()
    shares = [float(line) * 100 for line in lines]
    drawn, left = shares[::2], shares[1::2]
    unit = "% of a core"
    print(f"{what}:")
    row("panel drawn", median(drawn), unit)
    row("panel left as it is", median(left), unit)
    row("what it costs", median(a - b for a, b in zip(drawn, left, strict=True)), unit, MOST)


async def take_turns(app: object, turns: Path) -> None:
    """Write the share of a core of each turn, once all requests run."""
    bench = app.workbench  # type: ignore[attr-defined]
    while sum(lane.running for lane in bench.link.live.lanes) < PANES:
        await asyncio.sleep(0.1)
    show = bench.panel.show
    with turns.open("w", buffering=1) as file:
        for turn in count():
            bench.panel.show = show if turn % 2 == 0 else lambda *_: None
            start, cpu = time.monotonic(), time.process_time()
            await asyncio.sleep(TURN)
            file.write(f"{(time.process_time() - cpu) / (time.monotonic() - start)}\n")


if __name__ == "__main__":
    sys.exit(workbench(sys.argv[2:], lambda app: take_turns(app, Path(sys.argv[1]))))
