"""Real worker processes, started the way the workbench and people start them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx
import openai

from engine.events import EngineStatus, Phase, RequestState, Snapshot, decode
from tests.e2e.waiting import DEADLINE, wait_until

BUSY = (Phase.PREFILL, Phase.DECODE)
START_SECONDS = 300.0
"""Processes that load a model, perhaps several at once, on a machine that may be busy."""


class RunningWorker:
    """`python -m engine` with these options. Killed at the end if it still runs."""

    command = ("engine",)

    def __init__(self, *options: str | Path, parent_pipe: bool = False) -> None:
        extra = ["--parent-pipe"] if parent_pipe else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.command, *map(str, options), *extra],
            stdin=subprocess.PIPE if parent_pipe else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stderr):
            if pipe:
                pipe.close()

    @property
    def url(self) -> str:
        """Where it listens, once it has loaded its model."""

        def ready() -> str | None:
            assert self.process.poll() is None, self.lines
            match = re.search(r" at (\S+?);", "".join(self.lines))
            return match and match[1]

        return str(wait_until(ready, "the worker says it is ready", START_SECONDS))

    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def state(self) -> Snapshot:
        state = decode(httpx.get(f"{self.url}/engine/state").json())
        assert isinstance(state, Snapshot)
        assert state.status is EngineStatus.OK
        return state

    def request(self, id: str) -> RequestState:
        return next(r for r in self.state().requests if r.request == id)

    def idle(self) -> bool:
        return all(r.phase is Phase.FINISHED for r in self.state().requests)

    @contextmanager
    def together(self, requests: int) -> Iterator[None]:
        """What is asked inside starts only at its end, once so many wait."""
        httpx.post(f"{self.url}/engine/pause").raise_for_status()
        try:
            yield
            wait_until(lambda: self.waiting() == requests, f"{requests} requests wait")
        finally:
            httpx.post(f"{self.url}/engine/resume").raise_for_status()

    def waiting(self) -> int:
        return sum(r.phase is Phase.QUEUED for r in self.state().requests)

    def wait_for_end(self) -> int:
        code = self.process.wait(DEADLINE)
        self._reader.join()
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait_for_end()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))


def data_of(response: httpx.Response) -> Iterator[str]:
    """The data of a streamed answer's frames, as they come."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
