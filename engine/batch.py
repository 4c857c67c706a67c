"""Rows sharing one forward pass: join, step, leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.bus import Clock
from engine.cache import BatchCache, CachedRow, CachePlan
from engine.drafters.base import Draft, Drafter
from engine.logprobs import Scores
from engine.models.load import Agreed
from engine.penalties import penalised
from engine.pick import Pick
from engine.prefill import Group
from engine.prefix import SHORTEST, Tokens, common
from engine.row import Row
from engine.sampling import needs_sync, sample
from engine.step import Step, Verify

LAYERS_A_TURN = 3
"""Layers whose buffers grow between two steps, ahead of a row that will join."""


Offer = Callable[[Tokens, CachedRow], None]
"""Told of each row that leaves: the tokens it has read, and views of its cache."""


class Batch:
    """The decoding rows. Row i of every layer's cache belongs to `rows[i]`."""

    def __init__(self, caches: CachePlan, clock: Clock, offer: Offer, agreed: Agreed) -> None:
        self._offer = offer
        self._agreed = agreed
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
        tokens = max(row.length for row in rows)
        self._cache.make_room(len(rows), tokens, LAYERS_A_TURN)

    def join(self, group: Group) -> None:
        """Take over rows whose prompts are read, each with a copy of its prompt's K/V."""
        for index, reading in enumerate(group.readings):
            for row in reading.rows:
                self._cache.append_from(group.cache, index)
                self.rows.append(row)

    def find(self, tokens: Tokens) -> CachedRow | None:
        """The longest beginning of `tokens` that a row has read and can be cut back to, as views;
        None if there is none."""
        if not isinstance(self._cache, BatchCache):
            return None
        lengths = self._cache.rows.lengths
        shared = [
            common(tokens, row.history[:length])
            for row, length in zip(self.rows, lengths, strict=True)
        ]
        for index in sorted(range(len(shared)), key=shared.__getitem__, reverse=True):
            if shared[index] < SHORTEST:
                return None
            if (found := self._cache.cut(self._cache.row(index), shared[index])) is not None:
                return found
        return None

    def leave(self, row: Row) -> None:
        """Drop a row; nothing happens if it left already. Tokens in flight are simply not used."""
        if row not in self.rows:
            return
        index = self.rows.index(row)
        if isinstance(self._cache, BatchCache) and row.failure is None:
            read = row.history[: self._cache.rows.lengths[index]]
            self._offer(read, self._cache.row(index))
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
        logits = self._caches.forward(inputs, self._cache)[:, -1]
        picks = [row.pick() for row in self.rows]
        tokens, scores = self._choose(logits, self.rows, picks, inputs[:, 0])
        self._cache.rows.advance([1] * len(self.rows))
        for row in self.rows:
            row.launched += 1
        self._latest = Step(list(self.rows), tokens, scores, launched_at)
        return self._latest

    def verify(self, drafts: Sequence[Draft]) -> Verify:
        """Start a step over every row's unread tokens and its draft. No step is in flight."""
        launched_at = self._clock.now()
        reads = [
            [*unread, *draft.tokens] for unread, draft in zip(self._unread(), drafts, strict=True)
        ]
        widths = [len(read) for read in reads]
        width = max(widths)
        padded = mx.array([read + [0] * (width - len(read)) for read in reads], dtype=mx.uint32)
        cache = self._shared
        cache.rows.expect(widths)
        before = cache.snapshot()
        logits = self._caches.forward(padded, cache)
        rows: list[Row] = []
        places: list[int] = []
        picks: list[Pick] = []
        for index, (row, draft) in enumerate(zip(self.rows, drafts, strict=True)):
            rows += [row] * (len(draft) + 1)
            last = index * width + widths[index]
            places += range(last - len(draft) - 1, last)
            picks += row.picks_along(draft.tokens)
        logits = logits.reshape(-1, logits.shape[-1])
        if len(places) < logits.shape[0]:
            logits = logits[mx.array(places)]
        tokens, scores = self._choose(logits, rows, picks, padded.reshape(-1)[mx.array(places)])
        self._latest = None
        return Verify(list(self.rows), tokens, scores, launched_at, drafts, widths, before)

    def keep(self, step: Verify, taken: Sequence[int]) -> None:
        """Count what was read in a verify step whose rows took so many tokens of theirs.

        A recurrent state can't drop a part of what it read. Such a row goes back to where it was
        and reads what counts together with its next draft: that costs a wider forward where it
        would else take one more.
        """
        wrong = [
            len(draft) + 1 - max(count, 1) for draft, count in zip(step.drafts, taken, strict=True)
        ]
        read = [width - drop for width, drop in zip(step.widths, wrong, strict=True)]
        cache = self._shared
        if cache.recurrent and any(wrong):
            cache.restore(step.before, [drop > 0 for drop in wrong])
            read = [0 if drop else width for width, drop in zip(read, wrong, strict=True)]
        cache.rows.advance(read)
        for row in step.rows:
            row.launched = len(row.tokens)

    def propose(self, drafter: Drafter, limits: Sequence[int]) -> list[Draft]:
        """The drafter's proposals for the rows."""
        return drafter.propose(self.rows, limits, self._shared)

    def unread(self) -> list[int]:
        """How many tokens of each row its next forward has to read. No step is in flight."""
        return [len(tokens) for tokens in self._unread()]

    @property
    def _shared(self) -> BatchCache:
        """The cache, of rows that can share a forward: others never see a draft."""
        assert isinstance(self._cache, BatchCache)
        return self._cache

    def _unread(self) -> list[list[int]]:
        lengths = self._cache.rows.lengths
        return [row.after(length) for row, length in zip(self.rows, lengths, strict=True)]

    def _choose(
        self, logits: mx.array, rows: Sequence[Row], picks: Sequence[Pick], newest: mx.array
    ) -> tuple[mx.array, Scores | None]:
        """Start choosing a token from each of the logits [picks, vocabulary]. rows, newest: whose
        they are and which token they come from."""
        logits = penalised(self._processed(logits, rows), picks, newest)
        tokens = self._agreed(sample(logits, picks))
        scores = Scores.of(logits, tokens, [row.request.logprobs for row in rows])
        mx.async_eval(tokens, scores.arrays if scores else [])
        return tokens, scores

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
                known.append(row.newest)
        tokens = mx.array(known, dtype=mx.uint32)
        if latest is not None:
            tokens = mx.concatenate([latest.tokens, tokens]) if known else latest.tokens
        return tokens[mx.array(sources)][:, None]

    def _processed(self, logits: mx.array, rows: Sequence[Row]) -> mx.array:
        """Run the rows' processors; a row whose processor raises fails alone."""
        for index, row in enumerate(rows):
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
