"""An engine's loop without its thread: one turn at a time, everything countable."""

from __future__ import annotations

import mlx.core as mx

from engine.bus import Clock, EventBus
from engine.events import Event
from engine.loop import Loop
from engine.models.load import LoadedModel
from engine.row import Row
from engine.types import EngineSettings, Finish, GenerationRequest, SamplingParams, Update

GREEDY = SamplingParams()


class Stepped:
    """`read`: prompt tokens read so far, padding included. `events`: everything that was told.
    `ends`: of the requests, by id; one that failed is raised."""

    def __init__(self, model: LoadedModel, slots: int = 8, **settings: int) -> None:
        clock = Clock()
        bus = EventBus(clock, slots, queue_limit=1000)
        self._told = bus.subscribe(lambda: None)
        self._told.drain()
        self._clock = clock
        self.loop = Loop(model, EngineSettings(slots, **settings), bus, clock, lambda _: None)
        self.read = 0
        self.events: list[Event] = []
        self.ends: dict[str, Finish] = {}
        self._count = 0
        budget = self.loop._budget
        record = budget.record_slice

        def counted(tokens: int, milliseconds: float) -> None:
            self.read += tokens
            record(tokens, milliseconds)

        budget.record_slice = counted  # type: ignore[method-assign]

    def ask(
        self, prompt: tuple[int, ...], max_tokens: int = 6, sampling: SamplingParams = GREEDY
    ) -> Row:
        self._count += 1
        request = GenerationRequest(f"r{self._count}", prompt, max_tokens, sampling)

        def sink(update: Update) -> None:
            if isinstance(update, Finish):
                self.ends[request.id] = update

        return self.loop.enqueue(request, sink, self._clock.now())

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.turn()
        self.events += self._told.drain()
        failures = [end.error for end in self.ends.values() if end.error is not None]
        assert not failures, failures

    def finish(self) -> None:
        """Until nothing is left to do."""
        for _ in range(5000):
            if self.loop.idle:
                return
            self.turn()
        raise AssertionError("the loop makes no progress")

    def taken(self) -> int:
        """Bytes of the running rows' buffers."""
        return sum(array.nbytes for array in self.loop._batch._cache.arrays())

    @property
    def kept(self) -> int:
        """Bytes of ended rows."""
        kept = self.loop._memory._kept
        return kept.bytes if kept else 0

    def close(self) -> None:
        self.loop.stop("over")
        mx.clear_cache()
