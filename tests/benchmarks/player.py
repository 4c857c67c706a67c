"""Engine loops that answer the same prompts side by side, a few turns each, in one process.

What slows the machine meanwhile slows all of them alike, down to the second. A player's clock
stands still while the others play, so its loop measures its own steps only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine.bus import Clock, EventBus
from engine.types import EngineSettings, GenerationRequest

if TYPE_CHECKING:
    from engine.models.load import LoadedModel
    from engine.row import Row

SLICE = 8
"""Turns a player has before it is the next one's turn."""


class Stopwatch(Clock):
    """Seconds for which it ran."""

    def __init__(self) -> None:
        super().__init__()
        self._ran = 0.0
        self._started: float | None = None

    def now(self) -> float:
        return self._ran + (0.0 if self._started is None else time.perf_counter() - self._started)

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self) -> None:
        self._ran, self._started = self.now(), None


class Player:
    """A loop of its own that answers prompts all at once."""

    def __init__(self, model: LoadedModel, settings: EngineSettings) -> None:
        from engine.loop import Loop

        self.rows: list[Row] = []
        self._clock = Stopwatch()
        self._bus = EventBus(self._clock, settings.max_batch, settings.queue_limit)
        self._loop = Loop(model, settings, self._bus, self._clock, lambda _: None)
        self._began, self._before = 0.0, 0

    def read(self, prompts: Sequence[Sequence[int]], tokens: int) -> None:
        """Take the prompts; play until every row decodes, which doesn't count."""
        self.rows = [self._enqueue(f"r{n}", p, tokens) for n, p in enumerate(prompts)]
        self._clock.start()
        while any(row.first_token is None for row in self.rows):
            self._loop.turn()
        self._pause()
        self._began, self._before = self._clock.now(), self._tokens

    def play(self, turns: int = SLICE) -> bool:
        """Play so many turns; whether rows are left."""
        self._clock.start()
        while turns and not self._loop.idle:
            self._loop.turn()
            turns -= 1
        self._pause()
        return not self._loop.idle

    @property
    def rate(self) -> float:
        """Tokens per second since all rows decode."""
        return (self._tokens - self._before) / (self._clock.now() - self._began)

    @property
    def _tokens(self) -> int:
        return sum(len(row.tokens) for row in self.rows)

    def _pause(self) -> None:
        from mlx.core import synchronize  # not before its BLAS is chosen

        synchronize()  # a step in flight is on the account of who launched it
        self._clock.stop()

    def _enqueue(self, name: str, prompt: Sequence[int], tokens: int) -> Row:
        request = GenerationRequest(name, tuple(prompt), tokens)
        return self._loop.enqueue(request, lambda _: None, self._clock.now())


def compete(
    players: Mapping[str, Player], prompts: Sequence[Sequence[int]], tokens: int
) -> dict[str, float]:
    """Each player's tokens per second for the same prompts, until its own last row ends."""
    for player in players.values():
        player.read(prompts, tokens)
    playing = [*players.values()]
    while playing:  # there and back, so that no player is always the first
        playing = [player for player in reversed(playing) if player.play()]
    return {name: player.rate for name, player in players.items()}


def count_processor_time() -> None:
    """Let all clocks here, the engine's too, count what this process was given."""
    time.monotonic = time.perf_counter = time.process_time
