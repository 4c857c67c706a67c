"""Recordings of the engine's events: JSON lines, the first one says what the file is.

Whoever reads one folds its events as a live viewer does and so finds the same figures. Prompts and
answers are never in it, since no event carries them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.events import Event, Finished, Warning, decode, encode
from engine.proof.output import refusal
from engine.state import EngineState
from engine.types import FinishReason

log = logging.getLogger(__name__)

FORMAT = "dspark-tui events"
VERSION = 1
HEADER_LIMIT = 1000
"""Characters, at the most."""
CUT_OFF = "cut_off"
"""The code of the warning about a request that was still in the engine when the recording ended."""


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

    Requests that have not ended by then are cut off in the file too.
    A disk that fills up in the middle ends the recording, not whoever is recorded; `problem` says
    so then, in one line.
    """

    def __init__(self, path: Path) -> None:
        """Start a new file; one that is there is never written over. Raises RecordingError."""
        check_path(path)
        self.path = path
        self.problem = ""
        self._heard = _Heard()
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
        self._heard.apply(event)
        self._line(encode(event))

    def close(self) -> None:
        """Nothing is written after this."""
        for event in self._heard.cut_off():
            self._line(encode(event))
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


def check_path(path: Path) -> None:
    """Raises RecordingError if no recording can start there. Leaves everything as it is."""
    if path.is_file() and path.stat().st_size:
        raise RecordingError(f"{path} is there already: name another file, or remove that one")
    if why := refusal(path):
        raise RecordingError(f"can't record to {path}: {why}")


def read(path: Path) -> Recording:
    """A recording's events, those this version doesn't know left out. Raises RecordingError.

    A last line without its end is what a killed writer leaves: it is dropped, and the requests
    that it left without an end are cut off where the recording ends.
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
    known = [event for event in events if event is not None]
    if not known:
        raise RecordingError(f"{path} holds no events")
    heard = _Heard()
    for event in known:
        heard.apply(event)
    return Recording(created, (*known, *heard.cut_off()), complete=not rest)


class _Heard:
    """What a recording has told so far, and the end it gives to what has none."""

    def __init__(self) -> None:
        self._state = EngineState()
        self._begun = inf

    def apply(self, event: Event) -> None:
        self._begun = min(self._begun, event.time)
        self._state.apply(event)

    def cut_off(self) -> Iterator[Event]:
        """A warning and an end for each request that is still in the engine."""
        now = self._state.time
        why = f"cut off: the recording ended at {now - self._begun:.1f} s"
        for id, request in self._state.requests.items():
            if request.finished is None:
                seconds = now - request.queued
                yield Warning(now, CUT_OFF, why, id)
                yield Finished(now, id, FinishReason.CANCELLED, request.tokens, seconds)


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
