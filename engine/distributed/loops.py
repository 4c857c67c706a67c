"""The loops of the ranks: whatever enters rank 0's is told to the others first."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from engine.bus import Clock, EventBus
from engine.distributed.messages import Call, Cancel, Enqueue, Pause, Stop, Turn
from engine.distributed.ranks import Ranks
from engine.distributed.record import Record
from engine.loop import Loop
from engine.models.load import LoadedModel
from engine.row import Row
from engine.types import EngineSettings, GenerationRequest, Sink, Update

LOSS_SECONDS = 3.0
"""How long a failed turn waits to hear that it failed because a rank is gone."""


class DivergedError(Exception):
    """This rank does something else than rank 0."""


class RankLoop(Loop):
    """A loop that can say in one number where it is."""

    @property
    def state(self) -> int:
        rows = [
            (row.request.id, row.phase, len(row.tokens), row.newest) for row in self._rows.values()
        ]
        return zlib.crc32(repr(rows).encode())


class SharedClock(Clock):
    """Every reading is told to the other ranks, whose loops take it for theirs."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    def now(self) -> float:
        now = super().now()
        self._ranks.send(now)
        return now


class LeadingLoop(RankLoop):
    """Does nothing any more once a rank is lost: its engine answers in its place."""

    def __init__(
        self,
        model: LoadedModel,
        settings: EngineSettings,
        bus: EventBus,
        forget: Callable[[str], None],
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        super().__init__(model, settings, bus, SharedClock(ranks), forget)

    @property
    def idle(self) -> bool:
        return self._ranks.lost is not None or super().idle

    def enqueue(self, request: GenerationRequest, sink: Sink, queued: float) -> Row:
        self._ranks.send(Enqueue(request, queued))
        return super().enqueue(request, sink, queued)

    def cancel(self, request_id: str) -> None:
        self._ranks.send(Cancel(request_id))
        super().cancel(request_id)

    def pause(self, paused: bool) -> None:
        self._ranks.send(Pause(paused))
        super().pause(paused)

    def turn(self) -> None:
        if self._ranks.lost is None:
            self._ranks.send(Turn(self.state))
            with self._ranks.working():
                super().turn()

    def stop(self, why: str) -> None:
        self._ranks.send(Stop(why))
        super().stop(why)

    def _recover(self, error: Exception) -> None:
        if not self._ranks.wait_for_loss(LOSS_SECONDS):
            super()._recover(error)


class RecordedClock(Clock):
    """Rank 0's readings, in the order it took them."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self._record = record

    def now(self) -> float:
        reading = self._record.take()
        if not isinstance(reading, float):
            raise DivergedError(f"rank 0 went on to {type(reading).__name__} in a turn")
        return reading


class FollowingLoop(RankLoop):
    """Repeats what rank 0's loop does; nobody listens to it."""

    def __init__(self, model: LoadedModel, settings: EngineSettings, record: Record) -> None:
        self._record = record
        bus = EventBus(Clock(), settings.max_batch, settings.queue_limit)
        super().__init__(model, settings, bus, RecordedClock(record), _ignore)

    def follow(self) -> None:
        """Until rank 0 stops. Raises DivergedError, and whatever fails a step here."""
        while True:
            match message := self._record.take():
                case Stop():
                    self.stop(message.why)
                    return
                case Enqueue() | Cancel() | Pause() | Turn():
                    self._repeat(message)
                case _:
                    raise DivergedError("rank 0 read its clock where this rank did not")

    def _repeat(self, call: Call) -> None:
        match call:
            case Enqueue():
                self.enqueue(call.request, _ignore, call.queued)
            case Cancel():
                self.cancel(call.request)
            case Pause():
                self.pause(call.paused)
            case Turn():
                if call.state != self.state:
                    raise DivergedError("its rows are not those of rank 0")
                self.turn()


def _ignore(_: Update | str) -> None:
    """Rank 0 tells the clients."""
