"""The folder a worker's socket lies in: nobody else's to enter, and gone sooner or later."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

PREFIX = "dspark-"
SOCKET_NAME = "engine.sock"
LOCK_NAME = "owner.lock"
SOCKET_PATH_LIMIT = 100
"""Bytes; macOS allows 103 in a Unix socket's address, Linux 107."""


class PrivateFolder:
    """Only this user can enter it, and its path is short enough for a socket's address in it.

    Its lock is held as long as this process lives, however it ends.
    """

    def __init__(self) -> None:
        """Raises OSError where no folder can be made."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        if len(str(self.socket).encode()) > SOCKET_PATH_LIMIT:
            self.path.rmdir()
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        draft = self.path / f"{LOCK_NAME}.new"
        self._lock = os.open(draft, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        draft.rename(self.path / LOCK_NAME)  # held before anybody can find it

    @property
    def socket(self) -> Path:
        return self.path / SOCKET_NAME

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned() -> None:
    """Delete this user's folders whose owners are gone without having removed them."""
    for parent in {Path(tempfile.gettempdir()), Path("/tmp")}:
        for folder in parent.glob(f"{PREFIX}*"):
            try:
                if _abandoned(folder):
                    shutil.rmtree(folder)
                    log.info("removed %s, which a killed workbench had left", folder)
            except OSError as error:
                log.info("left %s alone: %s", folder, error)


def _abandoned(folder: Path) -> bool:
    """Made by us, and its lock held by nobody? Raises OSError where it can't be told."""
    status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
    lock = folder / LOCK_NAME
    if status.st_uid != os.getuid() or not private or not lock.is_file():
        return False
    held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(held)
    return True
