"""Events of our own requests to a server that publishes none, by our own stopwatch."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec import Struct

from dspark_tui.engines.chat_updates import Accepted, ChatUpdate, Ended, Text
from dspark_tui.engines.client_errors import ClientError
from engine.events import Event, Finished, FirstToken, Queued, Step
from engine.types import FinishReason

REASONS = {reason.value: reason for reason in FinishReason}
"""By the server's word; a word that is none of ours ends an answer as STOP does."""


class _Lap(Struct):
    """One request. reason: that of an answer nobody waited for, until it ends otherwise."""

    request: str
    sent: float
    tokens: int = 0
    reason: FinishReason = FinishReason.CANCELLED
    error: str | None = None


class Stopwatch:
    """Tells what is seen from here: sent, the first text, each piece of it, the end.

    Whether a request waits or its prompt is being read can't be seen, so no event says either.
    Pieces count as tokens until the server tells its count at the end.
    """

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._writing: set[str] = set()

    async def timed(
        self, updates: AsyncGenerator[ChatUpdate, None], source: str, max_tokens: int
    ) -> AsyncGenerator[ChatUpdate, None]:
        """The same updates, published as events on the way. The ids are ours, not the server's."""
        lap = _Lap(f"sent-{secrets.token_hex(6)}", time.monotonic())
        self._publish(Queued(lap.sent, lap.request, source, 0, max_tokens, 1))
        try:
            async with aclosing(updates):
                yield Accepted(lap.request)
                async for update in updates:
                    match update:
                        case Text():
                            self._piece(lap)
                        case Ended():
                            lap.tokens = update.tokens or lap.tokens
                            lap.reason = REASONS.get(update.reason, FinishReason.STOP)
                    if not isinstance(update, Accepted):
                        yield update
        except ClientError as error:
            lap.reason, lap.error = FinishReason.ERROR, str(error)
            raise
        finally:
            self._end(lap)

    def _piece(self, lap: _Lap) -> None:
        now = time.monotonic()
        if lap.request not in self._writing:
            self._writing.add(lap.request)
            self._publish(FirstToken(now, lap.request))
        lap.tokens += 1
        self._publish(Step(now, "decode", len(self._writing), {lap.request: 1}, 0.0))

    def _end(self, lap: _Lap) -> None:
        self._writing.discard(lap.request)
        now = time.monotonic()
        seconds = now - lap.sent
        self._publish(Finished(now, lap.request, lap.reason, lap.tokens, seconds, lap.error))
