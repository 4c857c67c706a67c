"""A workbench that stands still: its engine is a list of events, and its clock a number.

What it shows is the same at every look, so whole screens can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest

from dspark_tui.app import DsparkApp, Start
from dspark_tui.config import Settings
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.chat_updates import Accepted, ChatUpdate, Ended, Text
from dspark_tui.engines.engines import Engines
from dspark_tui.engines.link import EngineLink
from dspark_tui.engines.token_count import TokenCount
from dspark_tui.paths import Paths
from dspark_tui.storage.workspaces import Workspaces
from engine.events import Event, Queued, Snapshot, Status
from tests.tui.burst import NOW, START, STEP, Life
from tests.tui.conftest import Bench

NOWHERE = Server(Address.parse("http://127.0.0.1:9"))
WALL = 1_700_000_000.0


_ANSWERING: ContextVar[float | None] = ContextVar("answering", default=None)


@dataclass(slots=True)
class Clock:
    """In place of the module `time` for runs. A task that reads an answer has its own time."""

    now: float = START

    def monotonic(self) -> float:
        own = _ANSWERING.get()
        return self.now if own is None else own

    def time(self) -> float:
        return WALL + self.now - START


@dataclass(frozen=True, slots=True)
class Said:
    """What a request has written by NOW, and when."""

    life: Life
    text: str = ""

    @property
    def tokens(self) -> int:
        end = NOW - START if self.life.end is None else self.life.end
        return 0 if self.life.first is None else round((end - self.life.first) / STEP)


class StillClient:
    """Answers each source's requests in turn, as far as they got by NOW."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._said = list(said)

    async def chat(
        self, messages: object, sampling: object, source: str
    ) -> AsyncGenerator[ChatUpdate, None]:
        said = next(said for said in self._said if said.life.source == source)
        self._said.remove(said)
        life = said.life
        yield Accepted(life.id)
        tokens = said.tokens
        for token in range(tokens):
            _ANSWERING.set(START + (life.first or 0.0) + token * STEP)
            first, last = (len(said.text) * n // tokens for n in (token, token + 1))
            yield Text(said.text[first:last])
        if life.end is not None:
            yield Ended(life.reason, tokens, life.prompt, 0)
        else:
            await asyncio.Event().wait()

    async def count_tokens(self, text: str) -> TokenCount:
        return TokenCount(len(text.split()), 8192)

    async def cancel(self, request: str) -> None: ...

    async def aclose(self) -> None: ...


class StillLink(EngineLink):
    """Has heard all its events as soon as it starts."""

    def __init__(self, name: str, events: Sequence[Event], client: Any) -> None:
        super().__init__(NOWHERE, name)
        self._events, self._client = events, client
        self._server = None  # as titles tell it: a worker of our own
        self.live.claim(event.request for event in events if isinstance(event, Queued))

    def now(self) -> float:
        return NOW

    async def start(self) -> None:
        for event in self._events:
            self._observe(event)
            if isinstance(event, Snapshot | Status):
                self._status(event)


class StillEngines(Engines):
    """One engine for all names."""

    def __init__(self, events: Sequence[Event], client: StillClient) -> None:
        super().__init__(lambda _: NOWHERE)
        self._told, self._client = events, client

    def _new_link(self, name: str) -> EngineLink:
        return StillLink(name, self._told, self._client)


@dataclass
class StillBench(Bench):
    clock: Clock


@asynccontextmanager
async def still(
    monkeypatch: pytest.MonkeyPatch,
    paths: Paths,
    events: Sequence[Event],
    *,
    said: Sequence[Said] = (),
    size: tuple[int, int] = (120, 35),
    settings: Settings | None = None,
) -> AsyncIterator[StillBench]:
    """The workbench once all of that was said."""
    clock = Clock()
    monkeypatch.setattr("dspark_tui.conversation.run.time", clock)
    engines = StillEngines(events, StillClient(said))
    app = DsparkApp(Start(settings or Settings(), paths), engines, Workspaces(paths.sessions))
    try:
        async with app.run_test(size=size) as pilot:
            yield StillBench(app, pilot, None, clock)
    finally:
        await app.close()
