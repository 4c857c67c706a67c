"""The signs lanes are drawn with, by what they say."""

from __future__ import annotations

from enum import StrEnum


class Cell(StrEnum):
    """What one column of a lane shows: a span's kind, or where the request is or how it ended."""

    EMPTY = "empty"
    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    STALL = "stall"
    SENT = "sent"
    RUNNING = "running"
    DONE = "done"
    LENGTH = "length"
    STOPPED = "stopped"
    FAILED = "failed"
