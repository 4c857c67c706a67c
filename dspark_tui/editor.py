"""A text in the person's own editor, which has the terminal meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from textual.app import App, SuspendNotSupported

from dspark_tui.private_folder import PrivateFolder

log = logging.getLogger(__name__)

USUAL = ("nano", "vi")
"""Taken in this order where the person has set no editor."""

FILE_NAME = "prompt.md"


class EditorError(Exception):
    """There is no edited text. `str()` is one line that says why and what to do."""


async def edited(app: App[object], text: str) -> str:
    """The text as the editor leaves it. Raises EditorError.

    The screen rests, everything else goes on: answers still arrive and are kept.
    """
    command = _command()
    try:
        folder = PrivateFolder()
    except OSError as error:
        raise EditorError(f"no file can be made for the editor: {error}") from None
    try:
        file = folder.path / FILE_NAME
        file.write_bytes(text.encode("utf-8", "replace"))
        await _run(app, [*command, str(file)])
        return _read(file, text)
    except OSError as error:
        raise EditorError(f"what the editor wrote can't be read: {error}") from None
    finally:
        folder.remove()


def _command() -> list[str]:
    """The editor and its arguments. Raises EditorError where there is none."""
    for variable in ("VISUAL", "EDITOR"):
        if setting := os.environ.get(variable, "").strip():
            try:
                command = shlex.split(setting)
            except ValueError as error:
                raise EditorError(f"${variable} can't be understood: {error}") from None
            if shutil.which(command[0]) is None:
                raise EditorError(f"${variable} names {command[0]}, which is not installed")
            return command
    for name in USUAL:
        if shutil.which(name):
            return [name]
    raise EditorError("no editor is installed; set $EDITOR to one")


async def _run(app: App[object], command: list[str]) -> None:
    name = Path(command[0]).name
    try:
        with app.batch_update(), app.suspend(), _interrupts_ignored():
            process = await asyncio.create_subprocess_exec(*command)
            code = await process.wait()
    except SuspendNotSupported:
        raise EditorError("this terminal can't be handed to an editor") from None
    except OSError as error:
        raise EditorError(f"{name} can't be started: {error.strerror}") from None
    finally:
        app.refresh(repaint=True, layout=True)
    if code:
        log.warning("the editor ended with %s: %s", code, shlex.join(command))
        raise EditorError(f"{name} ended with {code}; the text is as it was")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ctrl+C reaches us too while an editor has the terminal; it is for the editor."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _read(file: Path, before: str) -> str:
    """What the file holds, without the end of its last line, which most editors add."""
    text = file.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    return text if before.endswith("\n") else text.removesuffix("\n")
