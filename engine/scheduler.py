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
    """

    slots: int
    kv_budget: int
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
        while self.queue and self._free and self._fits_now(self.queue[0]):
            request = self.queue.popleft()
            slot = heapq.heappop(self._free)
            self._slot_of[request.id] = slot
            self._reserved[request.id] = _reservation(request)
            admitted.append(Admission(request, slot))
        return admitted

    def blocked(self) -> GenerationRequest | None:
        """The head of the queue if a slot is free but memory is not, else None."""
        return self.queue[0] if self.queue and self._free else None

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


class SliceSize:
    """How many prompt tokens one prefill slice reads, steered to a cost in milliseconds.

    A fixed number of tokens is wrong on every machine but one; the cost per token isn't linear
    either (a slice of one token costs nearly what sixteen do), so the size follows what the
    latest slice of nearly that size cost.
    """

    SMALLEST = 8

    def __init__(self, start: int, largest: int) -> None:
        self._size = start
        self._largest = largest

    @property
    def tokens(self) -> int:
        return self._size

    def record(self, tokens: int, milliseconds: float, budget: float) -> None:
        """Learn from a slice. Slices cut short by the prompt's end only ever shrink the size."""
        ideal = tokens * budget / max(milliseconds, 1e-3)
        full = tokens >= self._size
        bounded = min(max(ideal, self._size / 2), self._size * 2 if full else self._size)
        self._size = int(min(max(bounded, self.SMALLEST), self._largest))


class PrefillBudget:
    """Prompt tokens to read before the next decode step.

    While rows decode, a slice may cost about as much as `STEPS` decode steps, so a joining prompt
    slows running streams by a bounded factor instead of freezing them. With nothing decoding,
    slices are only bounded so that cancellations and newcomers are noticed.
    """

    STEPS = 2.0
    IDLE_MILLISECONDS = 300.0

    def __init__(self) -> None:
        self._busy = SliceSize(start=48, largest=4096)
        self._idle = SliceSize(start=512, largest=16384)
        self._step = 50.0

    def tokens(self, decoding: bool) -> int:
        """Tokens for the next slice, all rows together."""
        return self._busy.tokens if decoding else self._idle.tokens

    def record_step(self, milliseconds: float) -> None:
        self._step += 0.2 * (milliseconds - self._step)

    def record_slice(self, tokens: int, milliseconds: float, decoding: bool) -> None:
        if decoding:
            self._busy.record(tokens, milliseconds, self.STEPS * self._step)
        else:
            self._idle.record(tokens, milliseconds, self.IDLE_MILLISECONDS)
