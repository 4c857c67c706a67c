"""The record of rank 0 as another rank takes it."""

from __future__ import annotations

from queue import SimpleQueue

from engine.distributed.messages import Message


class Record:
    """Rank 0's messages in order. place: how many were taken."""

    def __init__(self) -> None:
        self.place = 0
        self._arriving: SimpleQueue[Message] = SimpleQueue()

    def add(self, message: Message) -> None:
        self._arriving.put(message)

    def take(self) -> Message:
        """The next one; waits for it."""
        message = self._arriving.get()
        self.place += 1
        return message
