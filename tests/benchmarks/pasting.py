"""A paste of 1 MB into the composer, in a real pseudo terminal: until its label is on screen.

The text holds `q`, Esc and ^C. Beside it, one key alone, for what the terminal itself takes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pexpect

LINE = "q \x1b[31m red \x1b \x03 and so on\r"
PASTE = LINE * (1_000_000 // len(LINE)) + "the end"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
DEADLINE = 60.0


def main() -> None:
    key, paste = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as home:
            child = workbench(Path(home))
            try:
                key.append(seconds_until(child, "#", b"#"))
                paste.append(seconds_until(child, f"\x1b[200~{PASTE}\x1b[201~", b" MB"))
            finally:
                child.close(force=True)
    print(f"one key until it shows  {median(key):6.2f} s")
    print(f"1 MB until it shows     {median(paste):6.2f} s  (at most 2.00)")


def workbench(home: Path) -> pexpect.spawn[bytes]:
    """It stands still: no engine is there, and the panes are drawn."""
    environment = {**os.environ, "TERM": "xterm-256color", "HOME": str(home)}
    environment |= {f"XDG_{kind}_HOME": f"{home}/{kind}" for kind in ("CONFIG", "DATA", "STATE")}
    command = ["-m", "dspark_tui", "--attach", f"unix://{home}/none.sock"]
    child = pexpect.spawn(
        sys.executable, command, dimensions=(50, 200), env=environment, timeout=DEADLINE
    )
    child.delaybeforesend = None  # pexpect's pause of 50 ms would count as ours
    child.expect_exact(b"does not answer")
    return child


def seconds_until(child: pexpect.spawn[bytes], data: str, shown: bytes) -> float:
    started = time.monotonic()
    child.send(data)
    child.expect_exact(shown)
    return time.monotonic() - started
