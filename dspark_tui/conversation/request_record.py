"""What is kept of one request: when it was sent, what came back, how it ended."""

from __future__ import annotations

from msgspec import Struct


class RequestRecord(Struct, frozen=True):
    """Times by the workbench's own stopwatch, in seconds since `sent`; None where unknown.

    id: ours. request: the server's, "" until it accepted. sent: Unix time. waited: until a slot was
    free, by the engine's events. ended: None while it runs. reason: OpenAI's finish reason, "" for
    an answer that broke off. sampling: the fields that were sent, as JSON.
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

    @property
    def prefill(self) -> float | None:
        """Seconds from the slot to the first token."""
        if self.first is None or self.waited is None:
            return None
        return max(0.0, self.first - self.waited)

    @property
    def rate(self) -> float | None:
        """Tokens a second from the first to the last one, stalls included; None if too short."""
        if self.first is None or self.last is None or self.last - self.first < 0.2:
            return None
        return (self.tokens - 1) / (self.last - self.first)

    def summary(self) -> str:
        """The figures under a finished answer."""
        if not self.tokens or self.last is None:
            return ""
        rate = "" if self.rate is None else f"{self.rate:.1f} tok/s"
        parts = (f"{self.tokens} tok", rate, f"{self.last:.1f} s")
        return "  ".join(part for part in parts if part)
