"""The workbench in a real pseudo terminal of 200×50 while eight panes stream 30 tokens/s each.

The engine is scripted, so that only the screen's own work is measured. Key to echo is from writing
a key to the terminal until the draft with that key comes out of it; lag is how late a 10 ms
heartbeat on the app's own event loop wakes; CPU is of the app's process alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import pexpect

PANES = 8
RATE = 30
SECONDS = 15.0
IDLE = 10.0
KEYS_APART = 0.23  # seconds; no multiple of the app's ticks
DEADLINE = 60.0
HEARTBEAT = 0.01
QUIET_HEARTBEAT = 1.0  # while idleness is measured the heartbeat must not be what is measured
ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()].|.)")


@dataclass(frozen=True, slots=True)
class Beat:
    """One turn of the heartbeat in the app: asleep from `start` to `end`, CPU seconds at `end`."""

    start: float
    end: float
    cpu: float


def main() -> None:
    tokens = int(RATE * (SECONDS + 5))
    with serving(tokens) as folder:
        report(folder, tokens)


@contextmanager
def serving(tokens: int) -> Iterator[Path]:
    """A scripted engine that gives such answers at FOLDER/e.sock."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = [sys.executable, "-m", "tests.tui.scripted_engine", "--socket", f"{folder}/e.sock"]
        engine += ["--rate", str(RATE), "--slots", str(PANES), "--tokens", str(tokens)]
        process = subprocess.Popen(engine)
        try:
            until((folder / "e.sock").exists)
            yield folder
        finally:
            process.terminate()
            process.wait()


def report(folder: Path, tokens: int) -> None:
    beats_file = folder / "beats"
    options = ["-p", "hello", *panes(tokens)]
    terminal = Terminal(folder, ["tests.benchmarks.ui_load", str(beats_file)], options)
    terminal.until_shown(b" tok")
    busy_from = time.monotonic()
    echoes = [terminal.echo(n) for n in range(int(SECONDS / KEYS_APART))]
    busy_to = time.monotonic()
    terminal.drain(tokens / RATE - (busy_to - busy_from) + 3)
    idle_from = time.monotonic()
    idle_bytes = terminal.drain(IDLE)
    beats = [Beat(*map(float, line.split())) for line in whole_lines(beats_file)]
    terminal.close()
    busy = [beat for beat in beats if busy_from <= beat.start and beat.end <= busy_to]
    idle = [beat for beat in beats if beat.start >= idle_from]
    lags = [beat.end - beat.start - HEARTBEAT for beat in busy]
    row("key to echo, p50", percentile(echoes, 50) * 1000, "ms")
    row("key to echo, p95", percentile(echoes, 95) * 1000, "ms", "50")
    row("event loop lag, p99", percentile(lags, 99) * 1000, "ms", "60")
    row("event loop lag, worst", max(lags) * 1000, "ms")
    row("CPU while streaming", cpu_share(busy) * 100, "% of a core", "40")
    row("CPU while idle", cpu_share(idle) * 100, "% of a core", "1")
    row("written while idle", idle_bytes / IDLE, "bytes/s")


def panes(tokens: int) -> list[str]:
    """Options for panes that end when the engine does."""
    return ["--pane", f"max_tokens={tokens + 1}"] * PANES


def row(what: str, value: float, unit: str, target: str = "") -> None:
    goal = f"  (at most {target})" if target else ""
    print(f"{what:24}{value:10.2f} {unit}{goal}", flush=True)


def percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def cpu_share(beats: list[Beat]) -> float:
    return (beats[-1].cpu - beats[0].cpu) / (beats[-1].end - beats[0].end)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what the benchmark waits for never came")
        time.sleep(0.01)


class Terminal:
    """A pseudo terminal with the workbench in it, attached to the engine at FOLDER/e.sock."""

    def __init__(self, folder: Path, program: Sequence[str], options: Sequence[str]) -> None:
        """program: a module that runs the workbench, and its own arguments."""
        arguments = ["-m", *program, "--attach", f"unix://{folder}/e.sock", *options]
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment |= {"HOME": str(folder), "XDG_CONFIG_HOME": f"{folder}/config"}
        environment |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_DATA_HOME": f"{folder}/data"}
        self._child = pexpect.spawn(
            sys.executable, arguments, dimensions=(50, 200), env=environment, timeout=None
        )
        self._child.delaybeforesend = None  # pexpect's pause of 50 ms would count as ours
        self._seen = b""
        self._draft = ""
        self._child.send(b"\x1b[?2026;2$y")  # yes, frames may be synchronised

    def until_shown(self, text: bytes) -> None:
        until(lambda: self._read() and text in ESCAPES.sub(b"", self._seen))
        self._seen = b""

    def echo(self, number: int) -> float:
        """Seconds until the next key of the draft shows."""
        self.drain(KEYS_APART)
        self._draft += "ZQXJ"[number % 4]
        self._seen = b""
        sent = time.monotonic()
        self._child.send(self._draft[-1])
        wanted = self._draft.encode()
        while wanted not in self._seen:
            if time.monotonic() - sent > DEADLINE:
                raise TimeoutError(f"the draft {self._draft} never showed")
            self._read()
        return time.monotonic() - sent

    def drain(self, seconds: float) -> int:
        """Bytes written in that time."""
        end, count = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0:
            count += self._read(left)
        return count

    def close(self) -> None:
        self._child.close(force=True)

    def _read(self, timeout: float = 0.05) -> int:
        try:
            data: bytes = self._child.read_nonblocking(65536, timeout)
        except pexpect.TIMEOUT:
            return 0
        self._seen += data
        return len(data)


def whole_lines(file: Path) -> list[str]:
    """The lines of a file that is still being written, but for one without its end."""
    return file.read_text().rpartition("\n")[0].splitlines()


def workbench(
    arguments: list[str], beside: Callable[[object], Coroutine[object, object, None]]
) -> int:
    """The workbench as users start it, with something beside it on its event loop."""
    from dspark_tui import cli
    from dspark_tui.app import DsparkApp

    mounted = DsparkApp.on_mount

    def on_mount(app: DsparkApp) -> None:
        mounted(app)
        app.run_worker(beside(app))

    DsparkApp.on_mount = on_mount  # type: ignore[method-assign]
    return cli.main(arguments)


async def beat(app: object, path: Path) -> None:
    with path.open("w", buffering=1) as file:
        while True:
            start = time.monotonic()
            runs = app.workbench.runs  # type: ignore[attr-defined]
            await asyncio.sleep(HEARTBEAT if any(True for _ in runs) else QUIET_HEARTBEAT)
            file.write(f"{start} {time.monotonic()} {time.process_time()}\n")


if __name__ == "__main__":
    sys.exit(workbench(sys.argv[2:], lambda app: beat(app, Path(sys.argv[1]))))
