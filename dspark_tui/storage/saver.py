"""The store's own thread: what the screen wants kept or looked up waits here, never the screen."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TypeVar

from dspark_tui.storage.rows import Row
from dspark_tui.storage.store import Store

log = logging.getLogger(__name__)

T = TypeVar("T")


class Saver:
    """One database, used on one thread. trouble: one line while rows can't be saved, else ""."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(1, "store")
        self._store = self._thread.submit(Store.open, path).result()
        self._unsaved: dict[tuple[type[Row], int], Row] = {}
        self._lock = Lock()
        self._write_waits = self._closing = False
        self.trouble = ""

    @property
    def problem(self) -> str:
        """What was wrong with the file when it was opened, in one line."""
        return self._store.problem

    @property
    def writable(self) -> bool:
        return self._store.writable

    def save(self, rows: Iterable[Row]) -> None:
        """Have the rows written soon, all together. Of two states of a row the later one counts."""
        with self._lock:
            self._unsaved.update({(type(row), row.id): row for row in rows})
            if self._unsaved and not self._write_waits:
                self._write_waits = True
                self._thread.submit(self._write)

    def now(self, work: Callable[[Store], T]) -> T:
        """Do it and wait for the result: for before the first frame and after the last."""
        return self._thread.submit(work, self._store).result()

    async def ask(self, work: Callable[[Store], T]) -> T:
        """Do it after all that was to be saved before. Raises sqlite3.Error."""
        return await asyncio.wrap_future(self._thread.submit(work, self._store))

    def delete_pane(self, pane: int) -> None:
        """Have it deleted after what was to be saved before, and the index rid of it bit by bit."""
        self._thread.submit(self._attempt, lambda: self._store.delete_pane(pane))
        self._thread.submit(self._tidy, first=True)

    def delete_workspace(self, workspace: int) -> None:
        """As `delete_pane`."""
        self._thread.submit(self._attempt, lambda: self._store.delete_workspace(workspace))
        self._thread.submit(self._tidy, first=True)

    def rename(self, workspace: int, name: str) -> None:
        self._thread.submit(self._attempt, lambda: self._store.rename(workspace, name))

    def close(self) -> None:
        """Write what is left, then let go of the file."""
        self._closing = True
        self._thread.submit(self._write)
        self._thread.submit(self._store.close)
        self._thread.shutdown()

    def _write(self) -> None:
        with self._lock:
            rows, self._unsaved, self._write_waits = self._unsaved, {}, False
        try:
            self._store.save(rows.values())
            self.trouble = ""
        except Exception as error:  # whatever it is, the rows are kept and the person is told
            log.warning("%d rows not saved", len(rows), exc_info=True)
            self.trouble = f"what is said is not being saved: {error}"
            with self._lock:  # for the next time; what came meanwhile is later
                self._unsaved = rows | self._unsaved

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except sqlite3.Error as error:
            log.warning("a change to the sessions failed: %s", error)
            self.trouble = f"the sessions are not as they look: {error}"

    def _tidy(self, *, first: bool) -> None:
        try:
            if self._store.tidy(first=first) and not self._closing:
                self._thread.submit(self._tidy, first=False)  # what waits by now goes first
        except sqlite3.Error as error:
            log.warning("the index is not tidied: %s", error)
