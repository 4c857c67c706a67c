"""One answer from its request to its end, timed by our own clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from dspark_tui.batch.ending import BY_ANOTHER_CLIENT, Ending
from dspark_tui.batch.live import Aggregate
from dspark_tui.conversation.params import PaneParams
from dspark_tui.engines.chat_updates import Message

if TYPE_CHECKING:
    from dspark_tui.engines.chat_updates import Ended
    from dspark_tui.engines.client import EngineClient


class Answer(Struct):
    """Grows while it streams. Times are monotonic seconds; sent: when the request went out, first:
    when the first text came. problem: why it is not complete, "" when it is. Counts the server
    didn't tell are None.
    """

    sent: float = field(default_factory=time.monotonic)
    text: str = ""
    reason: str = ""
    problem: str = Ending.INTERRUPTED
    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    first: float | None = None
    end: float | None = None

    @property
    def ttft(self) -> float | None:
        return None if self.first is None else self.first - self.sent

    @property
    def completion_time(self) -> float | None:
        return None if self.end is None else self.end - self.sent

    async def receive(
        self, client: EngineClient, messages: list[Message], params: PaneParams, source: str
    ) -> None:
        """Ask, and take in all of the answer. Raises ClientError; what came until then stays."""
        from dspark_tui.engines.chat_updates import CANCELLED, Ended, Text
        from dspark_tui.engines.client_errors import ClientError

        self.sent = time.monotonic()
        try:
            async for update in client.chat(messages, params.sampling(), source):
                match update:
                    case Text(text):
                        self.first = self.first or time.monotonic()
                        self.text += text
                    case Ended():
                        self._end(update)
            if self.reason == CANCELLED:
                raise ClientError(f"{Ending.ELSEWHERE}: {BY_ANOTHER_CLIENT}")
            self.problem = ""
        except ClientError as error:
            self.problem = str(error)
            raise
        finally:
            self.text = whole_characters(self.text)

    def _end(self, update: Ended) -> None:
        self.end = time.monotonic()
        self.reason, self.tokens = update.reason, update.tokens
        self.prompt_tokens, self.cached_tokens = update.prompt_tokens, update.cached_tokens


def opening(system: str) -> list[Message]:
    """What every conversation with that system prompt starts with."""
    return [{"role": "system", "content": system}] if system else []


def aggregate(answers: Iterable[Answer]) -> Aggregate | None:
    """All tokens over the time from the first request to the last end; None if nothing ended."""
    ended = [(answer, answer.end) for answer in answers if answer.end is not None]
    if not ended:
        return None
    tokens = sum(answer.tokens or 0 for answer, _ in ended)
    return Aggregate(tokens, max(end for _, end in ended) - min(a.sent for a, _ in ended))


def whole_characters(text: str) -> str:
    """Join halves of a character that came in two pieces; a half alone becomes U+FFFD.

    Some servers cut JSON escapes in two, and no file or pipe takes half a character.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
