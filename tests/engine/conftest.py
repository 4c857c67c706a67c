"""A tiny model, an engine around it and a client that keeps what it is sent.

Imports nothing that needs MLX before it is used: the BLAS comes first (`tests/conftest.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.engine import Engine
from engine.events import Event, ModelInfo, Step
from engine.types import (
    Delta,
    EngineSettings,
    Finish,
    GenerationRequest,
    SamplingParams,
    Scored,
    TokenLogprob,
    Update,
)
from tests.tiny import tiny_llama

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

DEADLINE = 60.0


@dataclass
class Client:
    """One request's updates. `wait` returns its Finish."""

    request: GenerationRequest
    updates: list[Update] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    grown: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, update: Update) -> None:
        with self.grown:
            self.updates.append(update)
            self.grown.notify_all()
        if isinstance(update, Finish):
            self.done.set()

    @property
    def text(self) -> str:
        return "".join(u.text for u in self.updates if isinstance(u, Delta))

    @property
    def tokens(self) -> int:
        return sum(u.tokens for u in self.updates if isinstance(u, Delta))

    def wait(self) -> Finish:
        assert self.done.wait(DEADLINE), f"{self.request.id} never finished"
        last = self.updates[-1]
        assert isinstance(last, Finish)
        return last

    def wait_tokens(self, count: int) -> None:
        with self.grown:
            assert self.grown.wait_for(lambda: self.tokens >= count, DEADLINE)


Condition = Callable[[], object]


class Harness:
    """An engine, short ways to ask it for something, and every event since it was made."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: list[Event] = []
        self._grown = threading.Condition()
        self._due: list[tuple[Condition, Callable[[], object]]] = []
        self._subscription = engine.subscribe(self._drain)
        self._subscription.drain()
        self._count = 0

    def ask(
        self,
        prompt: tuple[int, ...] | str = (5, 6, 7),
        max_tokens: int = 8,
        stop: tuple[str, ...] = (),
        logprobs: int | None = None,
        **sampling: object,
    ) -> Client:
        """Submit; keyword arguments go to SamplingParams."""
        if isinstance(prompt, str):
            assert self.engine.model is not None
            prompt = tuple(self.engine.model.tokenizer.encode(prompt))
        self._count += 1
        params = SamplingParams(**sampling)  # type: ignore[arg-type]
        request = GenerationRequest(
            f"r{self._count}", prompt, max_tokens, params, stop, logprobs=logprobs
        )
        client = Client(request)
        self.engine.submit(client.request, client)
        return client

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def gained(self, request: str) -> int:
        """Its tokens, by the events."""
        steps = (event for event in self.events if isinstance(event, Step))
        return sum(step.tokens.get(request, 0) for step in steps)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is asked inside is admitted at its end: all of it waits by then."""
        self.engine.pause(True)
        yield
        self.engine.pause(False)

    def at(self, condition: Condition, do: Callable[[], object]) -> None:
        """Do it when an event makes the condition true: on the engine's thread, which does nothing
        else meanwhile, however late any other thread gets its turn."""
        self._due.append((condition, do))

    def wait_until(self, condition: Condition) -> None:
        deadline = time.monotonic() + DEADLINE
        with self._grown:
            while not condition():
                assert time.monotonic() < deadline, "the condition never came true"
                self._grown.wait(0.02)  # not all that may be waited for is told by an event

    def _drain(self) -> None:
        with self._grown:
            self.events.extend(self._subscription.drain())
            self._grown.notify_all()
        if threading.current_thread() is self.engine._thread:
            due = [pair for pair in self._due if pair[0]()]
            for pair in due:
                self._due.remove(pair)
                pair[1]()


def handed(model: LoadedModel, tokens: list[int], **request: Any) -> Client:
    """What the client of a row gets that is handed these tokens, each with a log-probability, as
    many as it may have. Keyword arguments go to GenerationRequest."""
    from engine.row import Row

    client = Client(GenerationRequest("r", (1,), len(tokens), logprobs=0, **request))
    row = Row.create(client.request, client, model.tokenizer, 0.0)
    for token in tokens:
        reason = row.accept(token, model.tokenizer.eos, Scored(TokenLogprob(token, -1.0)))
        if reason is not None:
            row.finish(reason, 1.0)
            break
    return client


Start = Callable[..., Harness]
"""Start an engine: `start(max_batch=2, folder=…)`, or `start(model=…)` that is loaded already."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny llama that practically never ends its turn."""
    return tiny_llama(tmp_path_factory.mktemp("tiny"), ends=False)


@pytest.fixture
def start(tiny_folder: Path) -> Iterator[Start]:
    """All that were started are closed at the end."""
    from engine.models.load import load

    engines: list[Engine] = []

    def begin(
        folder: Path = tiny_folder, model: LoadedModel | None = None, **settings: int
    ) -> Harness:
        engine = Engine(
            lambda report: model or load(folder, "tiny", "auto", report), EngineSettings(**settings)
        )
        engines.append(engine)
        ready = threading.Event()
        subscription = engine.subscribe(ready.set)
        engine.start()
        while engine.model is None:
            assert ready.wait(DEADLINE)
            ready.clear()
            assert engine.snapshot().error is None
        subscription.close()
        return Harness(engine)

    yield begin
    for engine in engines:
        engine.close()


@pytest.fixture
def harness(start: Start) -> Harness:
    return start(max_batch=4)


def info_of(harness: Harness) -> ModelInfo:
    assert harness.engine.model is not None
    return harness.engine.model.info
