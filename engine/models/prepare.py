"""Make a model folder once: whole or not at all, however many processes start at the same time."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from engine.events import Progress
from engine.models.errors import ModelError

ProgressSink = Callable[[Progress], None]
"""Hears how far a long start-up is. It may raise to end it; nothing half-made stays behind."""

_LOCK_POLL = 0.2  # seconds between looks at another process's lock, and between progress reports


def is_ready(folder: Path) -> bool:
    """Whether a model is there. Any name may be asked for, even one no file system would take."""
    return os.path.isfile(folder / "config.json")


def prepare_once(folder: Path, fill: Callable[[Path], None], progress: ProgressSink) -> Path:
    """`folder`, made by `fill` if it is missing.

    fill: writes the model into the empty folder it is given, which then becomes `folder` in one
    step. If another process is at it, wait and use its result. Raises ModelError.
    """
    if is_ready(folder):
        return folder
    with writing(folder), locked(folder, progress):
        if is_ready(folder):
            return folder
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)  # what a killed process left
        new.mkdir()
        try:
            fill(new)
            shutil.rmtree(folder, ignore_errors=True)  # no model: it has no config.json
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder


def discard(folder: Path) -> None:
    """Delete a prepared model in one step: no one can start loading half of it. Raises
    ModelError."""
    with writing(folder), locked(folder, lambda _: None):
        gone = folder.with_name(f".{folder.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)


@contextmanager
def locked(folder: Path, progress: ProgressSink) -> Iterator[None]:
    """Hold the folder's lock; say so while another process has it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    while True:
        try:
            lock.acquire(timeout=_LOCK_POLL, poll_interval=_LOCK_POLL)
            break
        except Timeout:
            progress(Progress("fetch", f"waiting: another process is preparing {folder.name}"))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the file system's refusals into a ModelError that says what to do."""
    try:
        yield
    except OSError as error:
        raise ModelError(refusal(folder.parent, error)) from error


def no_space(folder: Path, setting: str = "DSPARK_DATA_DIR") -> str:
    return f"the disk of {folder} is full; free some space or set {setting} to another disk"


def refusal(folder: Path, error: OSError, setting: str = "DSPARK_DATA_DIR") -> str:
    """What the file system's error means for the person. setting: what moves the folder."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return no_space(folder, setting)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"can't write to {folder}; make it writable or set {setting} to another folder"
    return f"can't keep models in {folder}: {error.strerror or error}"
