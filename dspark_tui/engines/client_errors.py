"""What can go wrong with a server. Apart from the client, whose HTTP library is slow to import."""

from __future__ import annotations

from typing import Any


class ClientError(Exception):
    """The server refused or failed this request. `str()` is one line for the person."""


class BusyError(ClientError):
    """The server can't take the request now but may in a moment: loading, or its queue is full."""


class ConnectionLostError(ClientError):
    """The server can't be reached, or went away in the middle of an answer."""


class RefusedError(ClientError):
    """The server will never take this request as it is: sending it again is pointless."""


class NoEventsError(ClientError):
    """The server is a plain OpenAI-compatible one: it doesn't publish its batch."""


def error_line(error: Any) -> str:
    """The server's own sentence about an error, on one line."""
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or "the server reported an error without a message").split())
