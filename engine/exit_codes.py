"""The numbers programs end with. What each means for a command is said in `dspark_tui`."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    FAILED = 1  # one line on stderr says why
    UNUSABLE = 2  # what was given, or what came, is not enough to go by
    NO = 3  # all went well, and the answer is no
    INTERRUPTED = 130  # as shells have it for Ctrl+C
