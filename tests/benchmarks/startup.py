"""From starting the program until the composer is on screen, in a real pseudo terminal of 200×50.

As a person starts it, except for the first time, when Python compiles it: two panes, and eight. The
engine is not there yet, since the first paint never waits for it. Beside it, what importing Textual
alone takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pexpect

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
DEADLINE = 60.0

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Without what has everything compiled again at each start."""


def main() -> None:
    first_paint(2)
    usage, two, eight, textual = [], [], [], []
    for _ in range(ROUNDS):
        usage.append(running("-m", "dspark_tui", "--help"))
        two.append(first_paint(2))
        eight.append(first_paint(8))
        textual.append(running("-c", "import textual.app"))
    print(f"dspark-tui --help         {median(usage):6.2f} s  (at most 0.25)")
    print(f"first paint, two panes    {median(two):6.2f} s  (at most 0.50)")
    print(f"first paint, eight panes  {median(eight):6.2f} s")
    print(f"importing Textual alone   {median(textual):6.2f} s")


def first_paint(panes: int) -> float:
    """Seconds until the composer's border names all panes."""
    numbers = " ".join(str(number) for number in range(1, panes + 1))
    with tempfile.TemporaryDirectory() as home:
        return until_shown(f"to {numbers}", Path(home), ["--pane", "max_tokens=64"] * panes)


def until_shown(text: str, home: Path, arguments: Sequence[str] = ()) -> float:
    """Seconds until the workbench shows the text. home: of the user, with their files in it."""
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment |= {"HOME": str(home), "XDG_CONFIG_HOME": f"{home}/config"}
    environment |= {"XDG_STATE_HOME": f"{home}/state", "XDG_DATA_HOME": f"{home}/data"}
    command = ["-m", "dspark_tui", "--attach", f"unix://{home}/none.sock", *arguments]
    started = time.monotonic()
    child = pexpect.spawn(
        sys.executable, command, dimensions=(50, 200), env=environment, timeout=DEADLINE
    )
    try:
        child.expect_exact(text.encode())
        return time.monotonic() - started
    finally:
        child.close(force=True)


def running(*arguments: str) -> float:
    """Seconds a fresh interpreter takes for it."""
    started = time.monotonic()
    subprocess.run(
        [sys.executable, *arguments], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL
    )
    return time.monotonic() - started
