"""The stored sessions, and the one that is open here and therefore nowhere else."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import HISTORY_KEPT, Session, Target
from dspark_tui.conversation.turns import new_id
from dspark_tui.storage.journal import Journal
from dspark_tui.storage.rows import WorkspaceRow
from dspark_tui.storage.saver import Saver
from dspark_tui.storage.workspace import View, restored

log = logging.getLogger(__name__)

UNTITLED = "untitled"
"""What a session goes by that has neither a name nor a prompt."""


class Lock:
    """A file that one process at a time holds, however that process ends."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, BlockingIOError if somebody holds it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise

    def release(self) -> None:
        os.close(self._file)


class Choice(Struct, frozen=True):
    """What is to be opened. workspace None: a new one. turn None: as it was left."""

    workspace: int | None
    turn: int | None = None


class Opened(Struct, frozen=True):
    """A session in use."""

    session: Session
    view: View
    journal: Journal


class Workspaces:
    """Opens sessions, one at a time. saver: the store they are in. problem: what was wrong with the
    store or its latest session, in one line, else "". elsewhere: what the latest session goes by
    where another instance has it, else ""."""

    def __init__(self, path: Path) -> None:
        self.saver = Saver(path)
        self.problem = self.saver.problem
        self.elsewhere = ""
        self._locks = path.parent / "locks"
        self._lock: Lock | None = None
        if self.saver.writable:
            try:
                self._end_abandoned()
            except sqlite3.Error:
                log.warning("what a crash left can't be marked", exc_info=True)

    def begin(self, panes: Iterable[PaneParams], target: Target) -> Opened:
        """A new one; it gets a place on disk once something is said in it."""
        workspace = WorkspaceRow(new_id(), "", time.time(), "")
        self._hold(self._lock_of(workspace.id))
        session = Session(panes, target)
        return self._opened(session, View(), Journal(self.saver, session, workspace))

    def latest(self) -> Opened | None:
        """The one used last; None if there is none, another instance has it, or it is damaged.

        Where another has it, an older one is no stand-in: who opens a second window beside the
        first has something new in mind, and an old talk there would look like a mistake.
        """
        try:
            id = self.saver.now(lambda store: store.latest())
            opened = None if id is None else self.open(id)
            if id is not None and opened is None and self.in_use(id):
                self.elsewhere = self.saver.now(lambda store: store.name(id)) or UNTITLED
            return opened
        except sqlite3.Error as error:
            log.warning("the latest session can't be read", exc_info=True)
            self.problem = f"the latest session can't be read and is left as it is: {error}"
            return None

    def open(self, id: int) -> Opened | None:
        """The one with that id instead of the present one; None if another instance has it, or it
        is gone. Raises sqlite3.Error where the file is damaged."""
        try:
            lock = self._lock_of(id)
        except BlockingIOError:
            return None
        stored = None
        try:
            stored = self.saver.now(lambda store: store.load(id))
        finally:
            if stored is None and lock is not None:
                lock.release()
        if stored is None:
            return None
        self._hold(lock)
        session, view = restored(stored)
        journal = Journal.of_stored(self.saver, session, stored.workspace)
        return self._opened(session, view, journal)

    def in_use(self, id: int) -> bool:
        """Does some instance have it open?"""
        lock = self._locks / str(id)
        try:
            if lock.exists():
                Lock(lock).release()
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def rename(self, id: int, name: str) -> None:
        """Soon; the open one is named by its journal as well."""
        self.saver.rename(id, name)

    def delete(self, id: int) -> None:
        """Soon, and for good. Not for one that is open anywhere."""
        self.saver.delete_workspace(id)
        (self._locks / str(id)).unlink(missing_ok=True)

    def close(self) -> None:
        """Save what is left and let go of everything."""
        self.saver.close()
        self._release()

    def _opened(self, session: Session, view: View, journal: Journal) -> Opened:
        try:
            session.history = self.saver.now(lambda store: store.prompts())[-HISTORY_KEPT:]
        except sqlite3.Error:
            log.warning("earlier prompts can't be read", exc_info=True)
        return Opened(session, view, journal)

    def _lock_of(self, id: int) -> Lock | None:
        """None where nothing is kept anyway. Raises BlockingIOError if another instance has it."""
        if not self.saver.writable:
            return None
        try:
            return Lock(self._locks / str(id))
        except BlockingIOError:
            raise
        except OSError as error:
            log.warning("no lock for session %d: %s", id, error)
            return None

    def _hold(self, lock: Lock | None) -> None:
        """Hold this one instead of the one before, of which all is on disk then."""
        self.saver.now(lambda _: None)
        self._release()
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _end_abandoned(self) -> None:
        """Mark what killed instances were still receiving."""
        for id in self.saver.now(lambda store: store.unfinished()):
            if not self.in_use(id):
                self.saver.now(lambda store, id=id: store.mark_interrupted(id))  # type: ignore[misc]
