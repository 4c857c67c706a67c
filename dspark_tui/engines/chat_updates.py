"""What goes into a chat, and what comes of it: Accepted if it is named, Text, then Ended."""

from __future__ import annotations

from msgspec import Struct

Message = dict[str, str]
"""One entry of OpenAI's `messages`: role and content."""

CANCELLED = "cancelled"
"""How our engine ends an answer that somebody cancelled: as an error's code."""

STOPPING = "engine_unavailable"
"""How it ends one when it is stopped itself: it goes away, and nothing has failed."""


class Accepted(Struct, frozen=True):
    """The server took the request. id: for `cancel` and for finding it among the events."""

    id: str


class Text(Struct, frozen=True):
    """More of the answer."""

    text: str


class Ended(Struct, frozen=True):
    """The answer is complete. reason: OpenAI's finish reason, or CANCELLED. tokens: generated; all
    counts are None where the server doesn't say."""

    reason: str
    tokens: int | None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None


ChatUpdate = Accepted | Text | Ended
