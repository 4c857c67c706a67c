"""Which step the batch takes next, and when: before the last one is read, if the rows allow it."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from engine.batch import Batch
from engine.drafters.base import Draft
from engine.speculation import Speculation
from engine.step import Step


class Decoder:
    """One batch's steps in the order in which their tokens are handed out. Engine thread only.

    A step may be under way while nothing is asked of it. Whoever iterates hands out each step
    before taking the next: rows leave by that.
    """

    def __init__(self, batch: Batch, speculation: Speculation | None) -> None:
        self._batch = batch
        self._speculation = speculation
        self._in_flight: Step | None = None

    def steps(self) -> Iterator[Step]:
        """Verify drafts where there are some; else launch the next step before yielding the one in
        flight, where the rows allow it."""
        drafts = yield from self._drafts()
        if drafts is not None:
            yield self._batch.verify(drafts)
            return
        if not self._batch.overlaps:
            yield from self.settled()
        previous, self._in_flight = self._in_flight, None
        step = self._batch.launch()
        if previous is not None:
            yield previous
        self._in_flight = step
        if not self._batch.overlaps:
            yield from self.settled()

    def settled(self) -> Iterator[Step]:
        """The step in flight, if there is one: none is after that."""
        step, self._in_flight = self._in_flight, None
        if step is not None:
            yield step

    def _drafts(self) -> Generator[Step, None, list[Draft] | None]:
        """For each row what the next step verifies; None for a plain step."""
        if self._speculation is None or not self._batch.rows:
            return None
        if self._in_flight is not None:
            if not self._speculation.promising(self._batch):
                return None
            yield from self.settled()
        return self._speculation.drafts(self._batch) if self._batch.rows else None
