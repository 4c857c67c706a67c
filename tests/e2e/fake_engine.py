"""An engine without a model, for what only the server decides: shapes, statuses, order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.bus import Clock, EventBus, Subscription
from engine.events import (
    Admitted,
    Capability,
    EngineStatus,
    Event,
    Finished,
    FirstToken,
    ModelInfo,
    Paused,
    Progress,
    Queued,
    Snapshot,
    Status,
    Step,
)
from engine.models.errors import TemplateError
from engine.models.guide import FormError
from engine.models.markup import Markup
from engine.types import (
    Delta,
    EngineError,
    EngineUnavailableError,
    Finish,
    FinishReason,
    GenerationRequest,
    KvUse,
    QueueFullError,
    Scored,
    ScoredPrompt,
    Sink,
    Timings,
    Usage,
)

THINK = 99
INFO = ModelInfo("fake-1", "fake", 1, 64, "fp32", 4, 8)


class FakeGuide:
    """Takes any schema but {}."""

    def json(self, schema: dict[str, Any]) -> str:
        if not schema:
            raise FormError("it says nothing")
        return json.dumps(schema)


class FakeTokenizer:
    """One token a word; a last word that begins thoughts is the token THINK. asked: the latest
    messages, and what came with them."""

    vocab_size = 100
    markup = Markup()
    guide = FakeGuide()
    template = "{{ messages }}"
    asked: tuple[Sequence[dict[str, Any]], dict[str, Any]]

    def chat(self, messages: Sequence[dict[str, Any]], **more: Any) -> list[int]:
        self.asked = messages, more
        text = " ".join(message["content"] for message in messages)
        if "#template" in text:
            raise TemplateError("System role not supported")
        if "#bug" in text:
            raise ZeroDivisionError("a bug in the tokenizer")
        return [THINK if word == "<think>" else 1 for word in text.split()]

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [0] * special + [len(word) for word in text.split()]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        if special and ids and ids[-1] == THINK:
            return "<think>\n"
        return " ".join("x" * id for id in ids if id or special)

    def spell(self, token: int) -> tuple[str, bytes | None]:
        return f"t{token}", b"t%d" % token


@dataclass(frozen=True)
class FakeModel:
    tokenizer: FakeTokenizer = field(default_factory=FakeTokenizer)
    info: ModelInfo = INFO


class FakeEngine:
    """Answers each request at once with `pieces`, or with `held` only when told to.

    refusal: what `submit` raises instead. room: requests it takes before its queue is full.
    scored: goes with each piece, and with a prompt that is to be scored. end: with the end.
    """

    def __init__(self) -> None:
        self.pieces: tuple[str, ...] = ("Hel", "lo ", "wörld 👩‍👩‍👧")
        self.reason = FinishReason.STOP
        self.stop: str | None = None
        self.error: str | None = None
        self.held = False
        self.refusal: EngineError | None = None
        self.room = 100
        self.scored: tuple[Scored, ...] = ()
        self.end: Scored | None = None
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[str] = []
        self.bus = EventBus(Clock(), slots=4, queue_limit=8)
        self.model: FakeModel | None = None
        self.longest_row = INFO.context
        self.kv_use = KvUse()
        self._sinks: dict[str, Sink] = {}

    def load(self) -> None:
        self.model = FakeModel()
        self.publish(Capability, "precision", "auto", "fp32", "it fits")
        self.publish(Status, EngineStatus.OK, model=INFO)

    def progress(self, progress: Progress) -> None:
        self.publish(Status, EngineStatus.LOADING, progress)

    def fail(self, error: str) -> None:
        self.publish(Status, EngineStatus.FAILED, error=error)

    def publish(self, event: Callable[..., Event], *details: object, **more: object) -> None:
        self.bus.publish(event(self.bus.clock.now(), *details, **more))

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        if self.refusal:
            raise self.refusal
        if self.model is None:
            raise EngineUnavailableError("no model")
        if len(self.requests) >= self.room:
            raise QueueFullError("the queue is full", retry_after=7)
        self._sinks[request.id] = sink
        self.publish(Queued, request.id, request.source, len(request.prompt), request.max_tokens, 1)
        self.requests.append(request)  # last: tests wait for it
        if not self.held:
            self.answer(request.id)

    def answer(self, id: str) -> None:
        """Admit a held request, write all pieces and finish it."""
        sink = self._sinks.pop(id)
        self.publish(Admitted, id, 0, 0.0, False, 0)
        if any(r.id == id and r.prompt_logprobs is not None for r in self.requests):
            sink(ScoredPrompt(self.scored))
        for index, piece in enumerate(self.pieces):
            if index == 0:
                self.publish(FirstToken, id)
            self.publish(Step, "decode", 1, {id: 1}, 1.0)
            sink(Delta(piece, 1, self.scored))
        self._finish(id, sink, self.reason, self.error)

    def cancel(self, id: str) -> bool:
        sink = self._sinks.pop(id, None)
        if sink is None:
            return False
        self.cancelled.append(id)
        self._finish(id, sink, FinishReason.CANCELLED, None)
        return True

    def pause(self, paused: bool) -> None:
        """Held requests stay held; the rest is the real engine's business."""
        if self.model is None:
            raise EngineUnavailableError("no model")
        self.publish(Paused, paused)

    def subscribe(self, notify: Callable[[], None]) -> Subscription:
        return self.bus.subscribe(notify)

    @property
    def subscribers(self) -> int:
        return len(self.bus._subscriptions)

    def snapshot(self) -> Snapshot:
        return self.bus.snapshot()

    def close(self) -> None:
        self.publish(Status, EngineStatus.STOPPING)
        for id in list(self._sinks):
            self.cancel(id)

    def _finish(self, id: str, sink: Sink, reason: FinishReason, error: str | None) -> None:
        tokens = len(self.pieces)
        self.publish(Finished, id, reason, tokens, 0.25, error)
        usage, timings = Usage(5, tokens, 2), Timings(0.01, 0.02, 0.25)
        sink(Finish(reason, usage, timings, error, self.stop, self.end))
