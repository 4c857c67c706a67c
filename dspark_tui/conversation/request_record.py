"""What is kept of one request: when it was sent, what came back, how it ended."""

from __future__ import annotations

from msgspec import Struct

from dspark_tui.batch.rate import decode_rate

ASKED_WITH = "model", "system", "sampling"
"""Columns of every table of requests: with the messages, what it takes to ask again."""


class RequestRecord(Struct, frozen=True):
    """Times in seconds since it was sent, by the engine's events, which the batch is drawn from
    too; by our own clock where there are none. None where unknown.

    id: ours. request: the server's, "" until it accepted. sent: Unix time; when the engine had it,
    where events tell that. waited: until a slot was free. ended: None while it runs. reason:
    OpenAI's finish reason, "" for an answer that broke off. sampling: the fields that were sent, as
    JSON. system: the system prompt, "" without one.
    """

    id: int
    request: str = ""
    model: str = ""
    sampling: str = ""
    sent: float = 0.0
    waited: float | None = None
    first: float | None = None
    last: float | None = None
    ended: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    tokens: int = 0
    reason: str = ""
    system: str | None = None

    @property
    def asked_with(self) -> tuple[str, str | None, str]:
        """The values of ASKED_WITH."""
        return self.model, self.system, self.sampling

    @property
    def prefill(self) -> float | None:
        """Seconds from the slot to the first token."""
        if self.first is None or self.waited is None:
            return None
        return max(0.0, self.first - self.waited)

    @property
    def rate(self) -> float | None:
        """Tokens a second after the first one, stalls included."""
        return decode_rate(self.tokens, self.first, self.last)

    @property
    def seconds(self) -> float | None:
        """To its end, or to the last token so far."""
        return self.last if self.ended is None else self.ended

    def summary(self) -> str:
        """The figures under a finished answer."""
        if not self.tokens or self.seconds is None:
            return ""
        rate = "" if self.rate is None else f"{self.rate:.1f} tok/s"
        parts = (f"{self.tokens:,} tok", rate, f"{self.seconds:.1f} s")
        return "  ".join(part for part in parts if part)
