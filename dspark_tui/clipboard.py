"""Copies to the person's clipboard by the surest route there is, and says which one it took."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from dspark_tui.paths import tilde, write_atomically

TIMEOUT = 2.0
"""Seconds a clipboard program may take."""

TERMINAL_LIMIT = 70_000
"""Bytes: much longer texts some terminals drop, others cut."""

MUTE_TERMINALS = ("linux", "dumb")
"""Values of TERM that have no clipboard."""

Command = tuple[str, ...]


class Clipboard:
    """text: what was copied last, for pasting within the program."""

    def __init__(
        self,
        to_terminal: Callable[[str], None],
        spare: Path,
        environ: Mapping[str, str] = os.environ,
        platform: str = sys.platform,
    ) -> None:
        """to_terminal: sends the OSC 52 sequence. spare: the file used where nothing else is."""
        self.text = ""
        self._to_terminal, self._spare = to_terminal, spare
        self._environ, self._platform = environ, platform

    async def copy(self, text: str) -> str:
        """Copy the text; returns a line that says by which route, and no more than is known."""
        self.text = text = text.encode("utf-8", "replace").decode()  # halves of surrogate pairs
        size = f"{len(text):,} characters"
        failures = []
        for command in self._programs():
            problem = await self._feed(command, text)
            if not problem:
                return f"copied {size} with {command[0]}"
            failures.append(f"{command[0]} {problem}; ")
        said = "".join(failures)
        if self._terminal_takes(text):
            self._to_terminal(text)
            return f"{said}sent {size} to the terminal (OSC 52), which does not say if it took them"
        return f"{said}{self._keep(text, size)}"

    def _programs(self) -> list[Command]:
        """Those that are installed and reach this screen; over SSH they would reach another."""
        if any(self._environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY")):
            return []
        known: list[Command] = [("pbcopy",)] if self._platform == "darwin" else []
        if self._environ.get("WAYLAND_DISPLAY"):
            known.append(("wl-copy", "--type", "text/plain"))
        if self._environ.get("DISPLAY"):
            known += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
        folders = self._environ.get("PATH")
        return [command for command in known if shutil.which(command[0], path=folders)]

    async def _feed(self, command: Command, text: str) -> str:
        """Run a program on the text. Returns what went wrong, "" if nothing.

        Its output goes nowhere: the ones for X and Wayland stay behind to serve the clipboard, and
        would keep a pipe open.
        """
        nowhere = asyncio.subprocess.DEVNULL
        environ = {**self._environ, "LC_CTYPE": "UTF-8"}  # what pbcopy takes its input for
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE, stdout=nowhere, stderr=nowhere, env=environ,
            )  # fmt: skip
        except OSError as error:
            return f"can't be run ({error.strerror or error})"
        try:
            await asyncio.wait_for(process.communicate(text.encode()), TIMEOUT)
        except TimeoutError:
            return "did not answer"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return f"failed ({process.returncode})" if process.returncode else ""

    def _terminal_takes(self, text: str) -> bool:
        deaf = (
            self._environ.get("TERM_PROGRAM") == "Apple_Terminal"
            or self._environ.get("TERM") in MUTE_TERMINALS
        )
        return not deaf and len(text.encode()) <= TERMINAL_LIMIT

    def _keep(self, text: str, size: str) -> str:
        try:
            write_atomically(self._spare, text)
        except OSError as error:
            return f"not copied: {tilde(self._spare)}: {error.strerror or error}"
        return f"no clipboard takes {size} here; they are in {tilde(self._spare)}"
