"""The workbench on a scripted engine, driven by Textual's pilot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest
import uvicorn
from fastapi import FastAPI
from textual.notifications import Notification
from textual.pilot import Pilot

from dspark_tui import themed
from dspark_tui.app import DsparkApp, Start
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import Conversation, Turn
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.client import EngineClient
from dspark_tui.engines.engines import Engines, Place, place_of
from dspark_tui.engines.link import EngineLink
from dspark_tui.engines.worker import Command
from dspark_tui.paths import Paths
from dspark_tui.screens.workbench import Workbench
from dspark_tui.storage.workspaces import Workspaces
from dspark_tui.text.lines import Kind
from dspark_tui.widgets.composer import Composer
from dspark_tui.widgets.pane import Pane
from tests.tui.idle import Rest
from tests.tui.scripted_engine import Script, ScriptedServer

DEADLINE = 60.0
"""Generous: a slow machine must not fail a test, only a missing effect may."""


TIME_LEFT = Notification.time_left


@pytest.fixture(autouse=True)
def nothing_depends_on_how_fast_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pilot and each next key wait for the app, and a notice stays until others push it out."""
    Rest(monkeypatch)
    monkeypatch.setattr(themed, "KEY_PATIENCE", DEADLINE)
    monkeypatch.setattr(Notification, "time_left", property(lambda _: 3600.0))


@dataclass
class Bench:
    """A running workbench and the hands to drive it."""

    app: DsparkApp
    pilot: Pilot[None]
    server: ScriptedServer | None

    @property
    def workbench(self) -> Workbench:
        return self.app.workbench

    @property
    def link(self) -> EngineLink:
        """To the active pane's engine."""
        return self.workbench.link

    @property
    def composer(self) -> Composer:
        return self.workbench.query_one(Composer)

    def pane(self, number: int) -> Pane:
        return self.workbench.query_one(f"#pane-{number}", Pane)

    def conversation(self, number: int) -> Conversation:
        return self.pane(number).conversation

    def turn(self, number: int) -> Turn:
        """The pane's latest turn."""
        return self.conversation(number).turns[-1]

    def shown(self, number: int) -> str:
        """What the pane's transcript holds."""
        return self.pane(number).transcript.source_text()

    def notes(self, number: int) -> str:
        """The pane's status lines."""
        lines = self.pane(number).transcript._text.lines
        return "\n".join(line.source for line in lines if line.kind is Kind.NOTE)

    def notices(self) -> list[str]:
        return [notice.message for notice in self.app._notifications]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        self.composer.insert(text)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        await self.type(text)
        await self.press("enter")

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for the condition; what it should have been is in its code."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            await self.pilot.pause(0.02)

    async def until_idle(self) -> None:
        await self.until(lambda: not self.workbench.runs)


class OpenBench(Protocol):
    def __call__(
        self,
        script: Script | None = None,
        *,
        size: tuple[int, int] = (120, 35),
        settings: Settings | None = None,
        place: str | Command | None = None,
        notices: tuple[str, ...] = (),
        prompt: str = "",
    ) -> AbstractAsyncContextManager[Bench]: ...


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(
        config=tmp_path / "config" / "config.toml",
        state=tmp_path / "state" / "state.toml",
        log=tmp_path / "log" / "workbench.log",
        engine_log=tmp_path / "log" / "engine.log",
        sessions=tmp_path / "data" / "sessions.db",
    )


@pytest.fixture
def open_bench(paths: Paths, sockets: Path) -> OpenBench:
    """Open a workbench, on a scripted engine of its own unless `place` names another."""
    places = (sockets / f"scripted-{number}.sock" for number in count())

    @asynccontextmanager
    async def opened(
        script: Script | None = None,
        *,
        size: tuple[int, int] = (120, 35),
        settings: Settings | None = None,
        place: str | Command | None = None,
        notices: tuple[str, ...] = (),
        prompt: str = "",
    ) -> AsyncIterator[Bench]:
        server = None if place else ScriptedServer(script or fast(), next(places))
        if server is not None:
            await asyncio.to_thread(server.__enter__)
        where = place or server.url  # type: ignore[union-attr]
        app = bench_app(Start(settings or panes(), paths, notices, prompt), where)
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                yield Bench(app, pilot, server)
        finally:
            await app.close()
            if server is not None:
                await asyncio.to_thread(server.__exit__, None, None, None)

    return opened


Requests = list[tuple[list[dict[str, str]], dict[str, Any]]]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Every chat request's messages and sampling fields, in order."""
    seen: Requests = []
    real = EngineClient.chat

    def recorded(self, messages, sampling, source):  # type: ignore[no-untyped-def]
        seen.append((messages, sampling))
        return real(self, messages, sampling, source)

    monkeypatch.setattr(EngineClient, "chat", recorded)
    return seen


def bench_app(start: Start, where: str | Command) -> DsparkApp:
    """A workbench whose usual engine is there; those it names are where its settings say."""

    def place(name: str) -> Place:
        if name:
            return place_of(name, start.settings, start.paths)
        return Server(Address.parse(where)) if isinstance(where, str) else where

    workspaces = Workspaces(start.paths.sessions)
    return DsparkApp(start, Engines(place, start.settings.engines), workspaces, workspaces.latest())


def fast(**changes: object) -> Script:
    """An engine quick enough for a test."""
    return Script(**{"rate": 200.0, **changes})  # type: ignore[arg-type]


def slow(**changes: object) -> Script:
    """An engine that can be watched at work."""
    return Script(**{"rate": 20.0, **changes})  # type: ignore[arg-type]


def calm(**changes: object) -> Script:
    """An engine at work between whose tokens a pressed key finds its quiet moment at once."""
    return Script(**{"rate": 5.0, **changes})  # type: ignore[arg-type]


def panes(count: int = 2, **params: Any) -> Settings:
    """Panes with short answers, unless the parameters say otherwise."""
    return Settings(panes=(PaneParams(**{"max_tokens": 20, **params}),) * count)


ENDLESS = panes(max_tokens=100_000)
"""Answers that are still running whenever a test looks."""


@pytest.fixture
def serve() -> Callable[[FastAPI], AbstractAsyncContextManager[str]]:
    """Serve an app on a free loopback port; gives its URL."""

    @asynccontextmanager
    async def serving(app: FastAPI) -> AsyncIterator[str]:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.should_exit = True
            await task

    return serving
