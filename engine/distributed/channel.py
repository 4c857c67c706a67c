"""A connection between rank 0 and another rank that carries messages in order."""

from __future__ import annotations

import contextlib
import hmac
import pickle
import socket
import threading

from engine.distributed import token as tokens
from engine.distributed.messages import Message


class ChannelClosed(Exception):
    """The other end is gone, or its machine is."""


class Channel:
    """Any thread may send; one thread receives."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        # The record is many small messages, and the other side waits for each.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice_dead_machines(connection)
        self._socket = connection
        self._lock = threading.Lock()
        self._incoming = connection.makefile("rb")

    @classmethod
    def join(cls, address: tuple[str, int], token: bytes) -> Channel:
        """Connect to rank 0. Raises OSError."""
        connection = socket.create_connection(address, timeout=30)
        connection.sendall(token)
        return cls(connection)

    @classmethod
    def accept(cls, listener: socket.socket, token: bytes, timeout: float) -> Channel | None:
        """The next rank that connects within `timeout` seconds and shows the token, else None."""
        listener.settimeout(timeout)
        try:
            connection, _ = listener.accept()
            connection.settimeout(timeout)
            shown = connection.recv(tokens.BYTES, socket.MSG_WAITALL)
        except OSError:
            return None
        if not hmac.compare_digest(shown, token):
            connection.close()
            return None
        return cls(connection)

    def send(self, message: Message) -> None:
        """Raises ChannelClosed."""
        data = pickle.dumps(message)
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError as error:
            raise ChannelClosed from error

    def receive(self) -> Message:
        """Waits. Raises ChannelClosed."""
        try:
            message: Message = pickle.load(self._incoming)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise ChannelClosed from error
        return message

    def close(self) -> None:
        """Also ends what another thread waits for in here."""
        with contextlib.suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _notice_dead_machines(connection: socket.socket) -> None:
    """A machine that lost its power closes nothing: have the system ask after it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS has another name for it.
    idle: int = getattr(socket, "TCP_KEEPALIVE", None) or socket.TCP_KEEPIDLE
    for option, value in ((idle, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
