"""Where a reader is in a chat."""

from __future__ import annotations

from msgspec import Struct


class Bookmark(Struct, frozen=True):
    """A place that is the same text however, and how much of the chat, is laid out.

    turn: of the branch that is shown, counted from 0. line: of the turn's source from its prompt
    on. character: of that line as it is drawn.
    """

    turn: int
    line: int = 0
    character: int = 0
