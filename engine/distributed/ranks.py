"""All other ranks: started, told what to do in one order, watched."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from typing import TypeVar

from engine.distributed import mpi, token
from engine.distributed.channel import Channel, ChannelClosed
from engine.distributed.division import Division
from engine.distributed.hosts import Backend, Hosts, RankHost, free_port
from engine.distributed.messages import Beat, Begin, Failed, Hello, Message
from engine.distributed.rank import Rank, one_by_one
from engine.distributed.versions import versions
from engine.distributed.vital import (
    BEAT_SECONDS,
    LOADING_SILENCE_SECONDS,
    SILENCE_SECONDS,
    STANDSTILL_SECONDS,
)
from engine.events import Capability
from engine.models.capabilities import Feature, stated
from engine.models.errors import ModelError
from engine.types import EngineSettings

log = logging.getLogger(__name__)

JOIN_SECONDS = 120.0
"""How long a rank's process may take to start and connect."""

LOOK_SECONDS = 0.2
"""Between two looks at what else may have happened while waiting."""

END_SECONDS = 1.0
"""How long a rank may take to end by itself."""

EXPLAIN_SECONDS = 2.0
"""How long what started a rank may take to tell how it ended; below `loops.LOSS_SECONDS`."""

Reply = TypeVar("Reply")


class Ranks:
    """The ranks from 1 up. `gather`, `send` and `replies` are for the engine's thread.

    on_loss: called at most once, from a thread of the ranks' own, with a line that names the rank.
    division: None before a model is known that they can share.
    lost: that line, None as long as all are there.
    """

    def __init__(self, hosts: Hosts, on_loss: Callable[[str], None]) -> None:
        self.hosts = hosts
        self.lost: str | None = None
        self.division: Division | None = None
        self._on_loss = on_loss
        self._started: list[Rank] = []  # with the stand-in for rank 0, where there is one
        self._ranks: list[Rank] = []
        self._place = 0  # of rank 0 in the record
        self._moved = time.monotonic()
        self._running = False  # within a turn
        self._begun = False  # all have loaded
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._news_of_loss = threading.Event()

    def capability(self) -> Capability:
        """The ranks as people see them."""
        asked = f"{len(self.hosts)} ranks"
        if self.lost is not None:
            return stated(Feature.DISTRIBUTED, asked, "stopped", self.lost, refused=True)
        ranks = [str(self.hosts.ranks[0]), *map(str, self._ranks)]
        who = f"{self.hosts.backend} of {', '.join(ranks)}"
        return stated(Feature.DISTRIBUTED, asked, f"{asked}, {self.division}", who)

    def gather(self, tick: Callable[[int], None]) -> list[list[int]]:
        """Start all ranks and wait until they have connected; every rank's ports, rank 0's first.

        tick: hears how many have, and may raise to end it. Raises ModelError naming the rank.
        """
        shown = token.new()
        start = mpi.together if self.hosts.backend is Backend.MPI else one_by_one
        leader = self.hosts.ranks[0]
        ip = self.hosts.address
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        with socket.create_server((ip, 0), family=family) as listener:
            address = ip, int(listener.getsockname()[1])
            try:
                for rank in start(self.hosts, address, shown):
                    self._started.append(rank)
                self._welcome_all(listener, shown, tick)
            except BaseException:
                self._kill()
                raise
        self._ranks = [rank for rank in self._started if rank.host.rank]
        ports = [_checked(leader, [free_port(ip) for ip in leader.ips])]
        for rank in self._ranks:
            assert rank.hello is not None
            ports.append(_checked(rank.host, rank.hello.ports))
        threading.Thread(target=self._watch, name="rank-watch", daemon=True).start()
        return ports

    def send(self, message: Message) -> None:
        """Tell all ranks, the next message of the record. Nothing happens once one is lost."""
        if self.lost is not None:
            return
        self._place += 1
        self._moved = time.monotonic()
        for rank in self._ranks:
            assert rank.channel is not None
            try:
                rank.channel.send(message)
            except ChannelClosed:
                return  # its listener tells

    def replies(self, kind: type[Reply]) -> list[Reply]:
        """The next reply of every rank. Raises ModelError once one is lost."""
        found: list[Reply] = []
        for rank in self._ranks:
            while True:
                if self.lost is not None:
                    raise ModelError(self.lost)
                try:
                    reply = rank.replies.get(timeout=LOOK_SECONDS)
                except Empty:
                    continue
                if isinstance(reply, kind):
                    found.append(reply)
                    break
        return found

    def begin(self, settings: EngineSettings) -> None:
        """All have loaded: make their loops. From now on a silent rank is lost soon."""
        self.send(Begin(settings))
        self._begun = True

    @contextmanager
    def working(self) -> Iterator[None]:
        """A turn, in which no rank may stay behind."""
        self._running = True
        try:
            yield
        finally:
            self._running = False

    def wait_for_loss(self, seconds: float) -> bool:
        """Whether a rank is lost, or will be within so many seconds."""
        return self._news_of_loss.wait(seconds)

    def release(self) -> None:
        """From now on ranks may end."""
        self._closing.set()

    def close(self) -> None:
        """Wait a moment for the ranks to end, then end them."""
        self.release()
        if not self._ranks:  # some may still be starting, and none is in a group yet
            self._kill()
        deadline = time.monotonic() + END_SECONDS
        for rank in self._started:
            rank.close(max(deadline - time.monotonic(), 0))

    def _welcome_all(
        self, listener: socket.socket, token: bytes, tick: Callable[[int], None]
    ) -> None:
        deadline = time.monotonic() + JOIN_SECONDS
        while missing := [rank for rank in self._started if rank.channel is None]:
            tick(len(self.hosts) - len(missing))
            for rank in missing:
                if end := rank.ended():
                    raise ModelError(f"{rank} can't be started: it {end}")
            if time.monotonic() > deadline:
                raise ModelError(f"{missing[0]} has not connected after {JOIN_SECONDS:.0f} s")
            if channel := Channel.accept(listener, token, LOOK_SECONDS):
                self._welcome(channel)

    def _welcome(self, channel: Channel) -> None:
        try:
            hello = channel.receive()
        except ChannelClosed:
            return  # its process has ended, and how is looked at next
        assert isinstance(hello, Hello)
        (rank,) = (rank for rank in self._started if rank.host.rank == hello.rank)
        if hello.versions != versions():
            raise ModelError(f"{rank} has {hello.versions}; rank 0 has {versions()}")
        rank.joined(channel, hello)
        if hello.rank == 0:  # a stand-in, which says no more
            os.environ |= hello.place
        else:
            threading.Thread(target=self._listen, args=[rank], daemon=True).start()

    def _listen(self, rank: Rank) -> None:
        """Take what a rank sends, until its connection ends."""
        assert rank.channel is not None
        try:
            while True:
                match message := rank.channel.receive():
                    case Beat():
                        rank.vital.beat(message.place, time.monotonic())
                    case Failed():
                        self._lose(rank, message.error)
                    case _:
                        rank.vital.heard = time.monotonic()
                        rank.replies.put(message)
        except ChannelClosed:
            self._lose(rank, None)

    def _watch(self) -> None:
        while not self._closing.wait(BEAT_SECONDS) and self.lost is None:
            now, place = time.monotonic(), self._place if self._running else 0
            silence = SILENCE_SECONDS if self._begun else LOADING_SILENCE_SECONDS
            for rank in self._ranks:
                if complaint := rank.vital.complaint(place, now, silence):
                    self._lose(rank, complaint)
                # What started it may end alone; of a rank that ends itself the last words count.
                elif rank.ended() and not self._news_of_loss.wait(BEAT_SECONDS):
                    self._lose(rank, None)
            if self._running and now - self._moved > STANDSTILL_SECONDS:
                self._lose(None, f"has moved for {STANDSTILL_SECONDS:.0f} s")

    def _lose(self, rank: Rank | None, why: str | None) -> None:
        """why: None when its connection has ended, which may take others with it."""
        with self._lock:
            if self.lost is not None or self._closing.is_set():
                return
            if rank is not None and why is None:
                why = rank.ended(EXPLAIN_SECONDS) or "closed its connection"
            self.lost = f"{rank or 'no rank'} {why}"
        log.error("%s", self.lost)
        self._news_of_loss.set()
        self._kill()  # before anybody hears of it, and perhaps ends this process
        self._on_loss(self.lost)

    def _kill(self) -> None:
        for rank in self._started:
            rank.kill()


def _checked(host: RankHost, ports: Sequence[int | None]) -> list[int]:
    """Raises ModelError where the rank's machine lacks one of its addresses."""
    for ip, port in zip(host.ips, ports, strict=True):
        if port is None:
            raise ModelError(f"{host} has no address {ip}; correct the hosts file")
    return [port for port in ports if port is not None]
