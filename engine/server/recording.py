"""Record a running engine's events, from a thread of its own: the loop never waits for a disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.engine import Engine
from engine.proof.recording import Recorder

SECONDS_BETWEEN_WRITES = 0.05
"""As often as subscribers are sent events: steps merge meanwhile, all else keeps its place."""


@contextmanager
def recorded(engine: Engine, path: Path | None) -> Iterator[None]:
    """Write everything the engine says meanwhile to `path`; nothing if it is None.

    Raises RecordingError before anything runs if the file can't be made.
    """
    if path is None:
        yield
        return
    with Recorder(path) as recorder:
        follower = _Follower(engine, recorder)
        follower.start()
        try:
            yield
        finally:
            follower.stop()


class _Follower(threading.Thread):
    def __init__(self, engine: Engine, recorder: Recorder) -> None:
        super().__init__(name="recorder", daemon=True)
        self._recorder = recorder
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._subscription = engine.subscribe(self._news.set)

    def run(self) -> None:
        self._write()
        while not self._stopping.is_set():
            self._news.wait()
            self._news.clear()
            self._write()
            self._stopping.wait(SECONDS_BETWEEN_WRITES)
        self._write()

    def stop(self) -> None:
        """Write what is left and end."""
        self._subscription.close()
        self._stopping.set()
        self._news.set()
        self.join()

    def _write(self) -> None:
        for event in self._subscription.drain():
            self._recorder.write(event)
