"""Who is admitted when, who has to wait for memory, and how much of a prompt is read between steps.

Pure policy: no MLX, no clock, no threads. Requests are admitted in order of arrival; one that does
not fit into memory yet holds the line, so that a large request is never starved.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

GROWTH = 256
"""Tokens of an answer that memory is set aside for. Nobody knows how long it gets: setting aside
all that was allowed would let in one request where many fit."""

LOOKAHEAD = 32
"""Tokens a row may gain in one step, rejected drafts included."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that wants a slot. tokens: what it has to read. left: how many it may add."""

    id: str
    tokens: int
    left: int

    @property
    def expected(self) -> int:
        return self.tokens + min(self.left, GROWTH)


@dataclass(frozen=True, slots=True)
class Admission:
    id: str
    slot: int


@dataclass(slots=True)
class Scheduler:
    """The queue and the slots.

    budget: bytes the rows may take. cost: bytes of so many rows, the longest of so many tokens.
    Rows share buffers as long as the longest, so each is charged as if it were that long.
    paused: nobody is admitted; what runs goes on.

    A row is admitted with room for some tokens of its answer. When rows outgrow the budget, the one
    admitted last goes back to the head of the queue. The one admitted first never does, and alone
    it fits (else it had been refused): so every request is served, in order of arrival.
    """

    slots: int
    budget: int
    cost: Callable[[int, int], int]
    paused: bool = False
    queue: deque[Candidate] = field(default_factory=deque)
    _free: list[int] = field(default_factory=list)
    _slot_of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = list(range(self.slots))

    @property
    def running(self) -> int:
        return len(self._slot_of)

    def enqueue(self, candidate: Candidate) -> None:
        self.queue.append(candidate)

    def admit(self, longest: int) -> Iterator[Admission]:
        """Take requests from the queue while slots and memory last, lowest slot first; one at a
        time, so that none is lost where what becomes of another fails.

        longest: tokens that the longest of the running rows is expected to have.
        """
        while not self.paused and self.queue and self._free:
            candidate = self.queue[0]
            longest = max(longest, candidate.expected)
            if self.running and self.cost(self.running + 1, longest) > self.budget:
                break
            self.queue.popleft()
            self._slot_of[candidate.id] = heapq.heappop(self._free)
            yield Admission(candidate.id, self._slot_of[candidate.id])

    def blocked(self) -> Candidate | None:
        """The head of the queue if a slot is free but memory is not, else None."""
        return self.queue[0] if self.queue and self._free and not self.paused else None

    def overfull(self, longest: int) -> str | None:
        """Who has to make room, if the running rows, the longest of so many tokens, don't fit."""
        if self.running < 2 or self.cost(self.running, longest + LOOKAHEAD) <= self.budget:
            return None
        return next(reversed(self._slot_of))

    def put_back(self, candidate: Candidate) -> None:
        """Take a running request's slot and memory; it is the next to be admitted again."""
        self.release(candidate.id)
        self.queue.appendleft(candidate)

    def drop_queued(self, request_id: str) -> bool:
        """Remove a request that is still queued; False if it isn't."""
        for candidate in self.queue:
            if candidate.id == request_id:
                self.queue.remove(candidate)
                return True
        return False

    def release(self, request_id: str) -> None:
        """Free a running request's slot and memory."""
        heapq.heappush(self._free, self._slot_of.pop(request_id))


class LineFit:
    """A line through recent (tokens, milliseconds) points, older ones fading.

    Starts as `fixed + each × tokens` and keeps its slope while all points lie at one size, where
    they say nothing about it.
    """

    FADE = 0.8
    STEADY = 64.0

    def __init__(self, fixed: float, each: float) -> None:
        self.fixed, self.each = fixed, each
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def add(self, x: float, y: float) -> None:
        self._weight = self._weight * self.FADE + 1
        self._x, self._y = self._x * self.FADE + x, self._y * self.FADE + y
        self._xx, self._xy = self._xx * self.FADE + x * x, self._xy * self.FADE + x * y
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx / self._weight - mean_x * mean_x
        together = self._xy / self._weight - mean_x * mean_y
        slope = (together + self.STEADY * self.each) / (spread + self.STEADY)
        # Never taken as free, nor as dearer than if the first token cost nothing.
        self.each = min(max(slope, mean_y / mean_x / 10), mean_y / mean_x)
        self.fixed = mean_y - self.each * mean_x


class PrefillBudget:
    """Prompt tokens to read before the next decode step, from what tokens and steps cost here.

    While rows decode, a slice may take as long as `STEPS` of their steps, so a joining prompt slows
    running streams by a bounded factor instead of freezing them. Shorter slices pause streams less
    but for much longer in all, since every slice pays the fixed part again: beside two streams, a
    600-token prompt took 43 slices at two steps each, 26 at three. When more rows wait to be read
    than decode, the pause grows in proportion: it costs few streams a little and spares many the
    wait. With nothing decoding, slices are bounded only so that cancellations and newcomers are
    noticed. A slice costs a fixed part (the weights are read once, however many tokens) and a part
    per token; both are fitted to the slices seen.
    """

    STEPS = 3.0
    IDLE_MILLISECONDS = 500.0
    SMALLEST, LARGEST = 8, 8192

    def __init__(self) -> None:
        self.step = 50.0
        self._cost = LineFit(fixed=50.0, each=2.0)

    def tokens(self, decoding: int, reading: int) -> int:
        """Tokens for the next slice, all its rows together, given how many rows decode and how
        many wait to be read."""
        budget = self.IDLE_MILLISECONDS
        if decoding:
            budget = self.STEPS * self.step * max(1.0, reading / decoding)
        size = (budget - self._cost.fixed) / self._cost.each
        return int(min(max(size, self.SMALLEST), self.LARGEST))

    def record_step(self, milliseconds: float) -> None:
        self.step += 0.2 * (milliseconds - self.step)

    def record_slice(self, tokens: int, milliseconds: float) -> None:
        self._cost.add(tokens, milliseconds)
