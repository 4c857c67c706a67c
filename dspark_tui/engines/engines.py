"""The engines panes are bound to: where each one is, and a link to it once a pane needs it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from dspark_tui.config import Settings
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.entries import EngineEntry, engine_problem
from dspark_tui.engines.worker import Command, engine_command
from dspark_tui.paths import Paths

if TYPE_CHECKING:
    from dspark_tui.engines.link import AskedBefore, EngineLink

Place = Server | Command


class NoEngineError(ValueError):
    """There is no engine of that name, or it can't be asked. `str()` is one line."""


def place_of(name: str, settings: Settings, paths: Paths) -> Place:
    """Where the engine of that name is, "" being the usual one. Raises NoEngineError."""
    if name:
        return _place_of_entry(name, settings, paths)
    if settings.attach:
        return Server(Address.parse(settings.attach), settings.api_key)
    return engine_command(settings, paths.engine_log)


def _place_of_entry(name: str, settings: Settings, paths: Paths) -> Place:
    if problem := engine_problem(name, settings.engines):
        raise NoEngineError(f"engine {problem}")
    entry = settings.engines[name]
    if entry.url:
        address = Address.parse(entry.url)
        return Server(address, _api_key(name, entry), entry.model or None, entry.headers)
    return engine_command(entry, paths.engine_log.with_name(f"engine-{name}.log"))


def _api_key(name: str, entry: EngineEntry) -> str | None:
    if not entry.api_key_env:
        return None
    key = os.environ.get(entry.api_key_env)
    if not key:
        raise NoEngineError(f"{name}'s key is missing: {entry.api_key_env} is not set")
    return key


class Engines:
    """`start` once the first frame is on screen, `close` before the loop ends.

    on_change: called whenever the condition of any of them changed.
    """

    def __init__(self, place_of: Callable[[str], Place], names: Collection[str] = ()) -> None:
        """place_of: where the engine of a name is; raises NoEngineError. names: those panes can be
        bound to besides the usual one's, ""."""
        self.names = names
        self.on_change: Callable[[], None] = lambda: None
        self._asked_before: AskedBefore = lambda _: set()
        self._place_of = place_of
        self._links: dict[str, EngineLink] = {}
        self._started = False
        self._starting: set[asyncio.Task[None]] = set()

    def of(self, name: str) -> EngineLink:
        """The link to the engine of that name; the first call for it starts it."""
        if name not in self._links:
            link = self._links[name] = self._new_link(name)
            link.on_change = self._changed
            link.asked_before = self._asked_before
            if self._started:
                self._start(link)
        return self._links[name]

    def failure(self, name: str) -> str:
        """Why the engine can't be had, in one line; "" unless it was needed and has given up."""
        link = self._links.get(name)
        return link.problem if link is not None and link.failed else ""

    def recognize(self, asked_before: AskedBefore) -> None:
        """Take requests for ours that were sent from here before this program was started."""
        self._asked_before = asked_before
        for link in self._links.values():
            link.asked_before = asked_before
            link.recognize()

    def start(self) -> None:
        self._started = True
        for link in self._links.values():
            self._start(link)
        self.on_change()

    async def close(self) -> None:
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def _new_link(self, name: str) -> EngineLink:
        # Links bring the engine's events along, which the first frame does not need.
        from dspark_tui.engines.link import EngineLink
        from dspark_tui.engines.missing_link import MissingLink

        try:
            return EngineLink(self._place_of(name), name)
        except NoEngineError as error:
            return MissingLink(name, str(error))

    def _start(self, link: EngineLink) -> None:
        task = asyncio.create_task(link.start(), name=f"engine {link.name}")
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _changed(self) -> None:
        self.on_change()
