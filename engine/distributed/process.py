"""A process that rank 0 starts to get a rank, or all of them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from engine.models.errors import ModelError, one_line

KILL_SECONDS = 1.0
"""How long the system may take to end a killed process."""


class Process:
    """Started when made; raises ModelError. who: runs in it. environment: None for ours. token:
    given to it on standard input, where other users can't read it."""

    def __init__(
        self,
        who: object,
        command: Sequence[str],
        token: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            # A session of its own: Ctrl+C in the terminal is for rank 0, which tells the others.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            raise ModelError(f"{who} can't be started: {one_line(error)}") from error
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(token)

    def ended(self, wait: float = 0) -> str | None:
        """How it ended, with the last line it wrote; None if it runs. wait: seconds."""
        try:
            code = self._process.wait(wait)
        except subprocess.TimeoutExpired:
            return None
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        lines = self._said().splitlines()
        return f"{how}: {lines[-1].strip()}" if lines and code > 0 else how

    def close(self, seconds: float) -> None:
        """It ends by itself now; where it does not in so many seconds, end it."""
        if self.ended(seconds) is None:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)

    def _said(self) -> str:
        """What it wrote to standard error, once it has ended."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()
