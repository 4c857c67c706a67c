"""Another program gets the terminal for a while: the person's own editor or pager."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from textual.app import App, SuspendNotSupported

from dspark_tui.private_folder import PrivateFolder

log = logging.getLogger(__name__)


class HandoverError(Exception):
    """The program did not do its work. `str()` is one line that says why and what to do."""


def chosen(variables: Iterable[str], usual: Iterable[Sequence[str]]) -> list[str]:
    """The command in the first of the environment's variables that has one, else the first usual
    one that is installed; [] if none is. Raises HandoverError for a variable that can't be used."""
    for variable in variables:
        if setting := os.environ.get(variable, "").strip():
            try:
                command = shlex.split(setting)
            except ValueError as error:
                raise HandoverError(f"${variable} can't be understood: {error}") from None
            if shutil.which(command[0]) is None:
                raise HandoverError(f"${variable} names {command[0]}, which is not installed")
            return command
    return next((list(command) for command in usual if shutil.which(command[0])), [])


@contextmanager
def private_file(name: str, text: str) -> Iterator[Path]:
    """A file with the text that nobody else can read, gone afterwards. Raises HandoverError."""
    folder = None
    try:
        folder = PrivateFolder()
        file = folder.path / name
        file.write_bytes(text.encode("utf-8", "replace"))
        yield file
    except OSError as error:
        raise HandoverError(f"{name} can't be written and read again: {error}") from None
    finally:
        if folder is not None:
            folder.remove()


async def hand_over(app: App[object], command: Sequence[str]) -> None:
    """Give the terminal to the command until it ends. Raises HandoverError, also if it failed.

    The screen rests, everything else goes on: answers still arrive and are kept.
    """
    name = Path(command[0]).name
    try:
        with app.batch_update(), app.suspend(), _interrupts_ignored():
            failure = await _failure(command)
    except SuspendNotSupported:
        raise HandoverError(f"this terminal can't be handed to {name}") from None
    finally:
        app.refresh(repaint=True, layout=True)
    if failure:
        log.warning("it %s: %s", failure, shlex.join(command))
        raise HandoverError(f"{name} {failure}")


async def _failure(command: Sequence[str]) -> str:
    """Run it to its end; what went wrong, "" if nothing. An error would leave the app suspended."""
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        return f"can't be started: {error.strerror}"
    code = await process.wait()
    return f"ended with {code}" if code else ""


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ctrl+C reaches us too while another program has the terminal; it is for that one."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
