"""Timed requests: what is asked, what our own clock saw, and whom it can be asked of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from engine.proof.shape import Timing


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. seed None: none is sent. source: what a live panel may call it."""

    prompt: str
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    stream: bool = True
    source: str = ""


@dataclass(slots=True)
class Record:
    """A request as seen from here, in seconds of the event loop's clock; grows while it runs.

    submit: None before it is sent. arrivals: when text came. counted: tokens by what came, at least
    one for each piece and each word. reported: tokens by the server's usage, which counts what it
    made, not how fast. end: when it was complete, None while it runs or if it never was. error: one
    line.
    """

    ask: Ask
    submit: float | None = None
    arrivals: list[float] = field(default_factory=list)
    end: float | None = None
    counted: int = 0
    reported: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    error: str | None = None

    @property
    def first(self) -> float | None:
        return self.arrivals[0] if self.arrivals else None

    @property
    def tokens(self) -> int:
        """As the server counted them, else as we did."""
        return self.counted if self.reported is None else self.reported

    @property
    def timing(self) -> Timing | None:
        """None unless it came to its end with something in it."""
        if self.error or self.submit is None or self.end is None or self.first is None:
            return None
        return Timing(self.submit, self.first, self.end, self.tokens)

    def received(self, text: str, now: float) -> None:
        """Note a piece of the answer."""
        self.arrivals.append(now)
        self.counted += max(1, len(text.split()))

    @property
    def longest_gap(self) -> float:
        """Seconds between two pieces of text."""
        return max(self.gaps, default=0.0)

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.arrivals)]


class Server(Protocol):
    """Something that answers. `ask` fills the record and reports failures in it, never raises."""

    async def ask(self, record: Record) -> None: ...


def timings(records: Sequence[Record]) -> list[Timing]:
    """Of those that came to their end."""
    return [timing for record in records if (timing := record.timing)]
