"""The workbench in a pseudo terminal: bytes in, an emulated screen out."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pexpect
import pyte
import pytest

from tests.processes import children

DEADLINE = 60.0
MODES = {
    "alternate screen": 1049,
    "mouse": 1000,
    "mouse motion": 1003,
    "paste": 2004,
    "focus": 1004,
}
"""Private terminal modes that must not outlive the program."""
FRAME_START, FRAME_END = b"\x1b[?2026h", b"\x1b[?2026l"
UNFINISHED = re.compile(rb"\x1b(\[[0-?]*[ -/]*)?$")
"""The beginning of a sequence at the end of what was read."""


class Terminal:
    """One run of the workbench. raw: every byte it wrote. carets: where the caret was at the end of
    each synchronised frame, as row and column."""

    def __init__(
        self, *arguments: str, engine: str, size: tuple[int, int], term: str = "xterm-256color"
    ) -> None:
        columns, rows = size
        environment = {**os.environ, "TERM": term, "COLORTERM": "truecolor"}
        self.screen = pyte.Screen(columns, rows)
        self._emulator = pyte.ByteStream(self.screen)
        self.raw = self._unfinished = b""
        self.carets: list[tuple[int, int]] = []
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "tests.pty.workbench", "--engine", engine, *arguments],
            dimensions=(rows, columns),
            env=environment,
            cwd=str(Path(__file__).parents[2]),
            timeout=None,
        )

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    @property
    def composer(self) -> list[str]:
        """The lines inside the composer's border; what was read may end within a frame."""
        lines = self.screen.display
        edges = [i for i, line in enumerate(lines) if line.startswith(("╭", "╰", "+"))]
        top, bottom = edges[-2:] if len(edges) > 1 else (0, 0)
        return [line[1:-1].strip() for line in lines[top + 1 : bottom]]

    def send(self, data: str | bytes) -> None:
        self.process.send(data)

    def paste(self, text: str) -> None:
        """As a terminal with bracketed paste hands it over."""
        self.send(f"\x1b[200~{text}\x1b[201~")

    def read(self, seconds: float = 0.05) -> bytes:
        """Take in what it wrote; b"" if nothing came in that time."""
        try:
            data: bytes = self.process.read_nonblocking(65536, seconds)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return b""
        self.raw += data
        whole = self._unfinished + data
        cut = UNFINISHED.search(whole)
        end = cut.start() if cut else len(whole)
        whole, self._unfinished = whole[:end], whole[end:]
        for part in re.split(b"(?<=%s)" % re.escape(FRAME_END), whole):
            self._draw(part)
            if part.endswith(FRAME_END):
                self.carets.append((self.screen.cursor.y, self.screen.cursor.x))
        return data

    def _draw(self, data: bytes) -> None:
        """pyte takes unknown private sequences for text; these say nothing about the picture."""
        self._emulator.feed(
            re.sub(rb"\x1b\[[<>=?][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p", self._known, data)
        )

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, f"never came true; the screen:\n{self.text}"
            assert self.read() or self.process.isalive() or condition(), f"ended:\n{self.text}"

    def until_shown(self, text: str) -> None:
        self.until(lambda: text in self.text)

    def wait(self) -> int | None:
        """Its exit code, or minus the signal that ended it."""
        deadline = time.monotonic() + DEADLINE
        while self.process.isalive():
            assert time.monotonic() < deadline, f"still running:\n{self.text}"
            self.read()
        while self.read():
            pass
        self.process.close()
        number = self.process.signalstatus
        return self.process.exitstatus if number is None else -number

    def modes_left_on(self) -> list[str]:
        """Modes it switched on and never off again."""
        left = []
        for name, number in MODES.items():
            last = [m[-1:] for m in re.findall(rb"\x1b\[\?%d[hl]" % number, self.raw)]
            if last and last[-1] == b"h":
                left.append(name)
        return left

    def worker_pids(self) -> list[int]:
        """The engine processes it started."""
        return children(self.process.pid)

    @staticmethod
    def _known(match: re.Match[bytes]) -> bytes:
        return match[0] if match[0].startswith((b"\x1b[?25", b"\x1b[?1049")) else b""


@pytest.fixture
def models_server() -> Iterator[Callable[[str], str]]:
    """Start a server that lists one model and can do no more; gives its URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(model: str) -> str:
        class Models(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"data": [{"id": model}]}).encode()
                self.send_response(200 if self.path == "/v1/models" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Models))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Start the workbench and wait for its first frame; it is gone afterwards, whatever happens."""
    started: list[Terminal] = []

    def start(
        *arguments: str,
        engine: str = "--rate 100",
        size: tuple[int, int] = (120, 35),
        term: str = "xterm-256color",
        typed: str = "",
    ) -> Terminal:
        """typed: at once, before there is anything to be seen."""
        started.append(Terminal(*arguments, engine=engine, size=size, term=term))
        started[-1].send(typed)
        started[-1].until_shown("to 1 2")
        return started[-1]

    yield start
    for run in started:
        if run.process.isalive():
            run.process.kill(signal.SIGKILL)
        run.process.close(force=True)
