"""Another rank as rank 0 sees it: a process, a connection, and when it was last heard of."""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from queue import SimpleQueue
from typing import IO

from engine.distributed.channel import Channel
from engine.distributed.hosts import RankHost
from engine.distributed.messages import Hello, Message
from engine.distributed.vital import Vital
from engine.models.errors import ModelError, one_line

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
"""Never asks for a password: there may be nobody to type it."""

KILL_SECONDS = 1.0
"""How long the system may take to end a killed process."""


class Rank:
    """Started when made; raises ModelError. replies: what it sends besides beats."""

    def __init__(self, host: RankHost, leader: tuple[str, int], token: bytes) -> None:
        self.host = host
        self.channel: Channel | None = None
        self.hello: Hello | None = None
        self.replies: SimpleQueue[Message] = SimpleQueue()
        self.vital = Vital(time.monotonic(), time.monotonic())
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        ip, port = leader
        program = [sys.executable, "-m", "engine.distributed"]
        command = [*program, str(host.rank), ip, str(port), *host.ips]
        if not host.local:
            command = [*SSH, host.name, shlex.join(command)]
        try:
            # A session of its own: Ctrl+C in the terminal is for rank 0, which tells the others.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ModelError(f"{host} can't be started: {one_line(error)}") from error
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(token)

    def __str__(self) -> str:
        return f"{self.host}, process {self.hello.pid}" if self.hello else str(self.host)

    def joined(self, channel: Channel, hello: Hello) -> None:
        self.channel, self.hello = channel, hello
        self.vital = Vital(time.monotonic(), time.monotonic())

    def ended(self, wait: float = 0) -> str | None:
        """How its process ended, with the last line it wrote; None if it runs."""
        try:
            code = self._process.wait(wait)
        except subprocess.TimeoutExpired:
            return None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{how}: {lines[-1].strip()}" if lines and code > 0 else how

    def kill(self) -> None:
        """End its process, here at once, elsewhere because its connection ends."""
        if self.channel is not None:
            self.channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)
