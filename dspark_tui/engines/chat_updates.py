"""What goes into a chat, and what comes of it: Accepted if it is named, Text, then Ended."""

from __future__ import annotations

from dataclasses import dataclass

Message = dict[str, str]
"""One entry of OpenAI's `messages`: role and content."""

CANCELLED = "cancelled"
"""How our engine ends an answer that somebody cancelled: as an error's code."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The server took the request. id: for `cancel` and for finding it among the events."""

    id: str


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is complete. reason: OpenAI's finish reason, or CANCELLED. tokens: generated; all
    counts are None where the server doesn't say."""

    reason: str
    tokens: int | None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None


ChatUpdate = Accepted | Text | Ended
