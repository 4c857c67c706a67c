"""One request in the engine, from the queue to its last token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.events import Phase
from engine.grammar import Grammar
from engine.pick import Pick
from engine.prompt_scores import PromptScores
from engine.sampling import Processor, processors
from engine.text import RowText
from engine.types import (
    Delta,
    Finish,
    FinishReason,
    GenerationRequest,
    Scored,
    ScoredPrompt,
    Sink,
    Timings,
    Usage,
)

if TYPE_CHECKING:
    from engine.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a row's part of a step: how many tokens it took, and what ended it if so."""

    tokens: int
    reason: FinishReason | None = None
    failure: Exception | None = None


@dataclass(slots=True, eq=False)
class Row:
    """Everything about one request lives here; batches are lists of rows. Engine thread only.

    cached: tokens that were not read for its sake. read: tokens whose K/V exist before it decodes.
    launched: tokens picked by steps so far, those still in flight included. grammar: one of the
    processors, if the answer has a form. prompt_scores: while its prompt's log-probabilities are
    still to be sent. tokens: generated tokens that came back. failure: what
    ends this row, and only this row, at its next token. Times are on the engine's clock. _sent:
    characters sent. _scored: log-probabilities not sent yet, each with the place in the text where
    its token begins. _end: the end-of-turn token's.
    """

    request: GenerationRequest
    sink: Sink
    text: RowText
    queued: float
    processors: list[Processor] = field(default_factory=list)
    grammar: Grammar | None = None
    prompt_scores: PromptScores | None = None
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
    _sent: int = 0
    _scored: list[tuple[int, Scored]] = field(default_factory=list)
    _end: Scored | None = None

    @classmethod
    def create(
        cls, request: GenerationRequest, sink: Sink, tokenizer: Tokenizer, queued: float
    ) -> Row:
        row = cls(request, sink, RowText(tokenizer.backend, request.stop, tokenizer.shown), queued)
        if request.prompt_logprobs is not None:
            row.prompt_scores = PromptScores(request.prompt, request.prompt_logprobs)
        try:
            row.processors = processors(request.sampling)
            if request.form is not None:
                matcher = tokenizer.guide.matcher(request.form.grammar)
                row.grammar = Grammar(matcher, request.form.after)
                row.processors.append(row.grammar)
        except Exception as error:
            row.failure = error
        return row

    @property
    def length(self) -> int:
        """Tokens of prompt and answer."""
        return len(self.request.prompt) + len(self.tokens)

    @property
    def held(self) -> int:
        """Tokens whose K/V it has."""
        return self.length - 1 if self.phase is Phase.DECODE else self.read

    @property
    def history(self) -> tuple[int, ...]:
        """Prompt and answer."""
        return (*self.request.prompt, *self.tokens)

    @property
    def left(self) -> int:
        """How many tokens it may still be given."""
        return self.request.max_tokens - len(self.tokens)

    @property
    def unread(self) -> int:
        """Tokens to read before decoding; the last one is the first step's input."""
        return self.length - 1 - self.read

    @property
    def spent(self) -> bool:
        """Whether the last token it may have is already in flight."""
        return self.launched >= self.request.max_tokens

    @property
    def finished(self) -> bool:
        return self.phase is Phase.FINISHED

    @property
    def newest(self) -> int:
        """The latest token that came back, the prompt's last before any."""
        return self.tokens[-1] if self.tokens else self.request.prompt[-1]

    def after(self, length: int) -> list[int]:
        """What follows the first `length` tokens of prompt and answer."""
        prompt = self.request.prompt
        return [*prompt[length:], *self.tokens[max(length - len(prompt), 0) :]]

    def pick(self) -> Pick:
        """How the next token is chosen; keyed by the absolute position it will have."""
        prompt = self.request.prompt
        return Pick(self.request.sampling, len(prompt) + self.launched, prompt, self.tokens)

    def picks_along(self, draft: Sequence[int]) -> list[Pick]:
        """How the next token is chosen and, were the draft's tokens right, each one behind them."""
        prompt, tokens = self.request.prompt, [*self.tokens, *draft] if draft else self.tokens
        return [
            Pick(self.request.sampling, self.length + ahead, prompt, tokens)
            for ahead in range(len(draft) + 1)
        ]

    def take(self, picked: Sequence[tuple[int, Scored | None]], eos: Collection[int]) -> Taken:
        """Accept the tokens of a step up to the one that ends the row. Never raises: what goes
        wrong with one ends this row alone."""
        if self.finished:
            return Taken(0)
        had, reason = len(self.tokens), None
        try:
            if self.failure is not None:
                raise self.failure
            for token, scored in picked:
                reason = self.accept(token, eos, scored)
                if reason is not None:
                    break
        except Exception as error:
            return Taken(len(self.tokens) - had, failure=error)
        return Taken(len(self.tokens) - had, reason)

    def accept(
        self, token: int, eos: Collection[int], scored: Scored | None = None
    ) -> FinishReason | None:
        """Take a generated token, send the text it made certain; the reason if it is the last."""
        self.tokens.append(token)
        self._unsent += 1
        if token in eos and len(self.tokens) > self.request.min_tokens:
            self._end = scored
            return FinishReason.STOP
        if scored is not None:
            self._scored.append((self.text.decoded, scored))
        if self.grammar is not None:
            self.grammar.take(token)
        text, stopped = self.text.push(token)
        self.send(text)
        if stopped:
            self._scored.clear()  # of tokens that begin in the stop string
            return FinishReason.STOP
        if self.grammar is not None and self.grammar.complete:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.tokens) >= self.request.max_tokens else None

    def send(self, text: str) -> None:
        """Send text, and what is known of the tokens that begin in it."""
        if not text:
            return
        self._sent += len(text)
        due = tuple(scored for start, scored in self._scored if start < self._sent)
        del self._scored[: len(due)]
        self.sink(Delta(text, self._unsent, due))
        self._unsent = 0

    def begin(self) -> None:
        """Decode from now on: what comes before its first token is read."""
        self.phase = Phase.DECODE
        if self.prompt_scores is not None:
            self.sink(ScoredPrompt(tuple(self.prompt_scores.scored)))
            self.prompt_scores = None

    def put_back(self) -> None:
        """Wait in the queue again, with the tokens it has; nothing of it is in flight."""
        self.phase, self.slot = Phase.QUEUED, None
        self.read, self.launched = 0, len(self.tokens)
        if self.prompt_scores is not None:
            self.prompt_scores.restart()

    def finish(self, reason: FinishReason, now: float, error: str | None = None) -> None:
        """Send what is held back and the one `Finish`."""
        self.phase = Phase.FINISHED
        if error is None:
            self._send_rest()
        prompt = len(self.request.prompt)
        usage = Usage(prompt, len(self.tokens), min(self.cached, prompt - 1))
        timings = Timings(
            self._since(self.admitted), self._since(self.first_token), now - self.queued
        )
        self.sink(Finish(reason, usage, timings, error, self.text.stop, self._end))

    def _send_rest(self) -> None:
        self.send(self.text.flush())
        if self._scored:  # tokens without text, such as an end of turn that did not count
            self.sink(Delta("", self._unsent, tuple(scored for _, scored in self._scored)))

    def _since(self, time: float | None) -> float | None:
        return None if time is None else time - self.queued
