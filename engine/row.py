"""One request in the engine, from the queue to its last token."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.events import Phase
from engine.sampling import Pick, Processor, processors
from engine.text import RowText
from engine.types import Delta, Finish, FinishReason, GenerationRequest, Sink, Timings, Usage

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


@dataclass(slots=True, eq=False)
class Row:
    """Everything about one request lives here; batches are lists of rows. Engine thread only.

    read: prompt tokens whose K/V exist. launched: tokens picked by steps so far, those still in
    flight included. tokens: generated tokens that came back. failure: what ends this row, and only
    this row, at its next token. Times are on the engine's clock.
    """

    request: GenerationRequest
    sink: Sink
    text: RowText
    queued: float
    processors: list[Processor] = field(default_factory=list)
    phase: Phase = Phase.QUEUED
    slot: int | None = None
    cached: int = 0
    read: int = 0
    launched: int = 0
    tokens: list[int] = field(default_factory=list)
    admitted: float | None = None
    first_token: float | None = None
    failure: Exception | None = None
    _unsent: int = 0

    @classmethod
    def create(cls, request: GenerationRequest, sink: Sink, backend: Backend, queued: float) -> Row:
        row = cls(request, sink, RowText(backend, request.stop), queued)
        try:
            row.processors = processors(request.sampling)
        except Exception as error:
            row.failure = error
        return row

    @property
    def unread(self) -> int:
        """Prompt tokens to read before decoding; the last one is the first step's input."""
        return len(self.request.prompt) - 1 - self.read

    @property
    def spent(self) -> bool:
        """Whether the last token it may have is already in flight."""
        return self.launched >= self.request.max_tokens

    @property
    def finished(self) -> bool:
        return self.phase is Phase.FINISHED

    def pick(self) -> Pick:
        """How the next token is chosen; keyed by the absolute position it will have."""
        return Pick(self.request.sampling, len(self.request.prompt) + self.launched)

    def accept(self, token: int, eos: Collection[int]) -> FinishReason | None:
        """Take a generated token, send the text it made certain; the reason if it is the last."""
        self.tokens.append(token)
        self._unsent += 1
        if token in eos and len(self.tokens) > self.request.min_tokens:
            return FinishReason.STOP
        text, stopped = self.text.push(token)
        self.send(text)
        if stopped:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.tokens) >= self.request.max_tokens else None

    def send(self, text: str) -> None:
        if text:
            self.sink(Delta(text, self._unsent))
            self._unsent = 0

    def finish(self, reason: FinishReason, now: float, error: str | None = None) -> None:
        """Send what is held back and the one `Finish`."""
        self.phase = Phase.FINISHED
        if error is None:
            self.send(self.text.flush())
        usage = Usage(len(self.request.prompt), len(self.tokens), self.cached)
        timings = Timings(
            self._since(self.admitted), self._since(self.first_token), now - self.queued
        )
        self.sink(Finish(reason, usage, timings, error))

    def _since(self, time: float | None) -> float | None:
        return None if time is None else time - self.queued
