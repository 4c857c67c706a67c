"""Rows sharing one forward pass: join, step, leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from engine.bus import Clock
from engine.cache import CachePlan
from engine.logprobs import Scores
from engine.penalties import penalised
from engine.prefill import Group
from engine.row import Row
from engine.sampling import needs_sync, sample
from engine.types import Scored

LAYERS_A_TURN = 3
"""Layers whose buffers grow between two steps, ahead of a row that will join."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decode step whose tokens may still be under way. tokens: uint32 [rows], in `rows` order.
    scores: for the rows that asked."""

    rows: list[Row]
    tokens: mx.array
    scores: Scores | None
    launched_at: float

    def read(self) -> list[tuple[int, Scored | None]]:
        """Wait for the tokens."""
        tokens = cast(list[int], self.tokens.tolist())
        scored = self.scores.read(tokens) if self.scores else [None] * len(tokens)
        return list(zip(tokens, scored, strict=True))


class Batch:
    """The decoding rows. Row i of every layer's cache belongs to `rows[i]`."""

    def __init__(self, caches: CachePlan, clock: Clock) -> None:
        self._caches = caches
        self._clock = clock
        self._cache = caches.new()
        self._latest: Step | None = None
        self.rows: list[Row] = []

    @property
    def overlaps(self) -> bool:
        """Whether a step may be launched before the one before it was read."""
        return not any(row.grammar or needs_sync(row.request.sampling) for row in self.rows)

    def expect(self, rows: list[Row]) -> None:
        """Rows are being read that will join: make room for them a few layers at a time."""
        tokens = max(len(row.request.prompt) for row in rows)
        self._cache.make_room(len(rows), tokens, LAYERS_A_TURN)

    def join(self, group: Group) -> None:
        """Take over rows whose prompts are read, each with a copy of its prompt's K/V."""
        for index, reading in enumerate(group.readings):
            for row in reading.rows:
                self._cache.append_from(group.cache, index)
                self.rows.append(row)

    def leave(self, row: Row) -> None:
        """Drop a row; nothing happens if it left already. Tokens in flight are simply not used."""
        if row not in self.rows:
            return
        index = self.rows.index(row)
        self._cache.remove(index)
        self.rows[index] = self.rows[-1]
        self.rows.pop()

    def launch(self) -> Step | None:
        """Start the next step and return without waiting for it; None when no row needs one."""
        for row in [row for row in self.rows if row.spent]:
            self.leave(row)
        if not self.rows:
            self._latest = None
            return None
        launched_at = self._clock.now()
        inputs = self._inputs()
        picks = [row.pick() for row in self.rows]
        logits = self._processed(self._caches.forward(inputs, self._cache)[:, -1])
        logits = penalised(logits, picks, inputs[:, 0])
        tokens = sample(logits, picks)
        scores = Scores.of(logits, tokens, [row.request.logprobs for row in self.rows])
        mx.async_eval(tokens, scores.arrays if scores else [])
        self._cache.rows.advance([1] * len(self.rows))
        for row in self.rows:
            row.launched += 1
        self._latest = Step(list(self.rows), tokens, scores, launched_at)
        return self._latest

    def _inputs(self) -> mx.array:
        """[rows, 1]: each row's latest token, taken from the step in flight without reading it."""
        latest = self._latest
        if latest is not None and latest.rows == self.rows:
            return latest.tokens[:, None]
        place = {row: index for index, row in enumerate(latest.rows)} if latest else {}
        known: list[int] = []
        sources = []
        for row in self.rows:
            if row in place:
                sources.append(place[row])
            else:
                sources.append(len(place) + len(known))
                known.append(row.request.prompt[-1])
        tokens = mx.array(known, dtype=mx.uint32)
        if latest is not None:
            tokens = mx.concatenate([latest.tokens, tokens]) if known else latest.tokens
        return tokens[mx.array(sources)][:, None]

    def _processed(self, logits: mx.array) -> mx.array:
        """Run the rows' processors; a row whose processor raises fails alone."""
        for index, row in enumerate(self.rows):
            if not row.processors or row.failure is not None:
                continue
            try:
                changed = logits[index]
                for process in row.processors:
                    changed = process(changed)
                logits[index] = changed
            except Exception as error:
                row.failure = error
        return logits
