"""Who is admitted when, and how much of a prompt is read between two decode steps.

Pure policy: no MLX, no clock, no threads. Requests are admitted in order of arrival; one that does
not fit into the K/V budget yet holds the line, so that a large request is never starved.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from engine.types import GenerationRequest


@dataclass(frozen=True, slots=True)
class Admission:
    request: GenerationRequest
    slot: int


@dataclass(slots=True)
class Scheduler:
    """The queue and the slots.

    kv_budget: tokens of K/V the device can hold. Rows share one buffer as long as its longest row,
    so `n` rows are charged n times the largest reservation (prompt + max_tokens) among them.
    paused: nobody is admitted; what runs goes on.
    """

    slots: int
    kv_budget: int
    paused: bool = False
    queue: deque[GenerationRequest] = field(default_factory=deque)
    _free: list[int] = field(default_factory=list)
    _reserved: dict[str, int] = field(default_factory=dict)
    _slot_of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = list(range(self.slots))

    @property
    def running(self) -> int:
        return len(self._slot_of)

    def enqueue(self, request: GenerationRequest) -> None:
        self.queue.append(request)

    def admit(self) -> list[Admission]:
        """Take requests from the queue while slots and memory last, lowest slot first."""
        admitted = []
        while not self.paused and self.queue and self._free and self._fits_now(self.queue[0]):
            request = self.queue.popleft()
            slot = heapq.heappop(self._free)
            self._slot_of[request.id] = slot
            self._reserved[request.id] = _reservation(request)
            admitted.append(Admission(request, slot))
        return admitted

    def blocked(self) -> GenerationRequest | None:
        """The head of the queue if a slot is free but memory is not, else None."""
        return self.queue[0] if self.queue and self._free and not self.paused else None

    def drop_queued(self, request_id: str) -> bool:
        """Remove a request that is still queued; False if it isn't."""
        for request in self.queue:
            if request.id == request_id:
                self.queue.remove(request)
                return True
        return False

    def release(self, request_id: str) -> None:
        """Free a running request's slot and memory."""
        heapq.heappush(self._free, self._slot_of.pop(request_id))
        del self._reserved[request_id]

    def _fits_now(self, request: GenerationRequest) -> bool:
        longest = max(_reservation(request), *self._reserved.values(), 0)
        return longest * (self.running + 1) <= self.kv_budget or not self.running


def _reservation(request: GenerationRequest) -> int:
    return len(request.prompt) + request.max_tokens


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
