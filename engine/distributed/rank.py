"""Another rank as rank 0 sees it: a process, a connection, and when it was last heard of."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from queue import SimpleQueue

from engine.distributed.channel import Channel
from engine.distributed.hosts import Hosts, RankHost
from engine.distributed.messages import Hello, Message
from engine.distributed.process import Process
from engine.distributed.vital import Vital

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
"""Never asks for a password: there may be nobody to type it."""


class Rank:
    """replies: what it sends besides beats. A rank 0 among them is the stand-in for it."""

    def __init__(self, host: RankHost, process: Process) -> None:
        self.host = host
        self.channel: Channel | None = None
        self.hello: Hello | None = None
        self.replies: SimpleQueue[Message] = SimpleQueue()
        self.vital = Vital(time.monotonic(), time.monotonic())
        self._process = process

    def __str__(self) -> str:
        return f"{self.host}, process {self.hello.pid}" if self.hello else str(self.host)

    def joined(self, channel: Channel, hello: Hello) -> None:
        self.channel, self.hello = channel, hello
        self.vital = Vital(time.monotonic(), time.monotonic())

    def ended(self, wait: float = 0) -> str | None:
        """How its process ended; None if it runs."""
        return self._process.ended(wait)

    def close(self, seconds: float) -> None:
        """It ends by itself now; where it does not in so many seconds, end it."""
        self._process.close(seconds)
        if self.ended():
            self._end_orphan()

    def kill(self) -> None:
        """End its process, here at once, elsewhere because its connection ends."""
        if self.channel is not None:
            self.channel.close()
        self._process.kill()
        self._end_orphan()

    def _end_orphan(self) -> None:
        """What started it may be gone, and while it joins MPI it heeds no end of a connection."""
        if self.hello and self.host.local:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.hello.pid, signal.SIGKILL)


def one_by_one(hosts: Hosts, leader: tuple[str, int], token: bytes) -> Iterator[Rank]:
    """All ranks from 1 up, each started by itself, over ssh where it is elsewhere.

    leader: where rank 0 awaits them. Raises ModelError.
    """
    for host in hosts.ranks[1:]:
        command = program(host, leader)
        if device := hosts.device(host):
            command = ["env", f"CUDA_VISIBLE_DEVICES={device}", *command]
        if not host.local:
            command = [*SSH, host.name, shlex.join(command)]
        yield Rank(host, Process(host, command, token))


def program(host: RankHost, leader: tuple[str, int]) -> list[str]:
    """The command that runs a rank on its machine."""
    ip, port = leader
    start = [sys.executable, "-m", "engine.distributed"]
    return [*start, str(host.rank), ip, str(port), *host.ips]
