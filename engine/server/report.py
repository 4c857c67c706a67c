"""What an engine process tells the person who started it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

from engine.events import Progress, Snapshot


class Reporter(Protocol):
    """Start-up in the order it happens: progress, then ready or failed."""

    def progress(self, progress: Progress) -> None: ...

    def ready(self, url: str, state: Snapshot) -> None: ...

    def failed(self, message: str, log: Path | None) -> None:
        """log: where the details are, if anywhere."""


class LineReporter:
    """One line on standard error once ready and one for each refusal, or one when it can't be."""

    def __init__(self, program: str) -> None:
        self._program = program

    def progress(self, progress: Progress) -> None:
        """Silent: those who watch ask `/health` or follow the events."""

    def ready(self, url: str, state: Snapshot) -> None:
        model = state.model.id if state.model else "the model"
        facts = [str(c) for c in state.capabilities if not c.refused]
        self._say("; ".join([f"{model} at {url}", f"{state.slots} slots", *facts]))
        for refusal in (c for c in state.capabilities if c.refused):
            self._say(f"WARNING: {refusal}")

    def failed(self, message: str, log: Path | None) -> None:
        self._say(f"{message} (details: {log})" if log else message)

    def _say(self, line: str) -> None:
        print(f"{self._program}: {line}", file=sys.stderr, flush=True)
