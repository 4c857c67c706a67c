"""Log failures so that one which strikes with every request can't fill the log."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger(__name__)


class FailureLog:
    """Logs what failed in one place with its traceback once; after that in a line, the 2nd, 4th,
    8th, ... time. Places are lines of code, so there are only so many."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[type[Exception], str, int]] = Counter()

    def note(self, what: str, error: Exception) -> None:
        place = _place(error)
        self._seen[place] += 1
        count = self._seen[place]
        if count == 1:
            log.error("%s", what, exc_info=error)
        elif count.bit_count() == 1:
            log.error("%s: %s (%d times by now)", what, error, count)


def _place(error: Exception) -> tuple[type[Exception], str, int]:
    """What was raised, and where."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error), "", 0
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno
