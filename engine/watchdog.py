"""See that a piece of work does not end, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOKS = 4
"""How often it looks within the time that work may take."""

Report = Callable[[float], None]
"""Told for how many seconds the work has been going on, again at every look, and 0 once it ended.
Must not wait for the worker."""


class Watchdog:
    """Nothing can end a forward that hangs in a driver or a kernel; but it must not be silent."""

    def __init__(self, limit: float, now: Callable[[], float], report: Report) -> None:
        """limit: seconds a piece of work may take, 0 for as long as it likes."""
        self._limit = limit
        self._now = now
        self._report = report
        self._since: float | None = None
        self._stuck = False
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        if self._limit:
            self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While one piece of work is done."""
        self._since = self._now()
        try:
            yield
        finally:
            with self._lock:
                self._since = None
                if self._stuck:
                    self._stuck = False
                    self._report(0.0)

    def _watch(self) -> None:
        while not self._closed.wait(self._limit / LOOKS):
            with self._lock:
                if self._since is not None and self._now() - self._since > self._limit:
                    self._stuck = True
                    self._report(self._now() - self._since)
