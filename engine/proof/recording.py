"""Recordings of the engine's events: JSON lines, the first one says what the file is.

Whoever reads one folds its events as a live viewer does and so finds the same figures. Prompts and
answers are never in it, since no event carries them.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.events import Event, decode, encode

log = logging.getLogger(__name__)

FORMAT = "dspark-tui events"
VERSION = 1


class RecordingError(Exception):
    """A recording can't be written or read. `str()` is one line."""


@dataclass(frozen=True, slots=True)
class Recording:
    """created: Unix seconds. complete: False where the last line was cut off."""

    created: float
    events: tuple[Event, ...]
    complete: bool


class Recorder:
    """Writes events to a file, each one on disk before the next. One thread only.

    A disk that fills up in the middle ends the recording, not whoever is recorded; `problem` says
    so then, in one line.
    """

    def __init__(self, path: Path) -> None:
        """Start a new file in place of any other of that name. Raises RecordingError."""
        self.path = path
        self.problem = ""
        try:
            self._file = path.open("w", encoding="utf-8", buffering=1)
        except OSError as error:
            raise RecordingError(f"can't record to {path}: {error.strerror or error}") from error
        self._line({"recording": FORMAT, "version": VERSION, "created": time.time()})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, event: Event) -> None:
        self._line(encode(event))

    def close(self) -> None:
        """Nothing is written after this."""
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _line(self, values: dict[str, Any]) -> None:
        if self.problem or self._file.closed:
            return
        try:
            self._file.write(json.dumps(values, separators=(",", ":")) + "\n")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.problem = f"the recording to {self.path} ended: {error.strerror or error}"
        log.warning(self.problem)


def read(path: Path) -> Recording:
    """A recording's events, those this version doesn't know left out. Raises RecordingError.

    A last line without its end is what a killed writer leaves: it is dropped.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"can't read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path} is no recording: it is not text") from error
    *lines, rest = text.split("\n")
    created = _header(path, lines[0] if lines else rest)
    events = [_event(path, number, line) for number, line in enumerate(lines[1:], 2)]
    known = tuple(event for event in events if event is not None)
    if not known:
        raise RecordingError(f"{path} holds no events")
    return Recording(created, known, complete=not rest)


def _header(path: Path, line: str) -> float:
    try:
        values = json.loads(line)
        if values["recording"] != FORMAT:
            raise ValueError
        version, created = int(values["version"]), float(values["created"])
    except (ValueError, LookupError, TypeError):
        raise RecordingError(f"{path} is no recording; --record makes one") from None
    if version > VERSION:
        raise RecordingError(f"{path} was made by a newer version; update dspark-tui to read it")
    return created


def _event(path: Path, number: int, line: str) -> Event | None:
    try:
        event = decode(json.loads(line))
        if event is not None and not isinstance(event.time, int | float):
            raise TypeError("its time is no number")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RecordingError(f"{path}, line {number} is damaged: {error}") from error
    return event
