"""A chat's answer as it comes from the batch, the same for every protocol that carries it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from engine.engine import Engine
from engine.events import EngineStatus
from engine.server.errors import CLIENT_CLOSED, ApiError, refused
from engine.server.generation import Generation
from engine.server.parts import Called, Manner, Part, PartReader, Said
from engine.server.source import source_of
from engine.server.translate import choices, prepared
from engine.server.wire import ChatRequest
from engine.types import Delta, EngineError, Finish, FinishReason, Scored

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

RETRY_WHILE_LOADING = 2
"""Seconds after which asking again makes sense."""

TOOL_CALLS = "tool_calls"
"""Why an answer ended whose last word is to the client's tools."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A choice has a new part. scored: the tokens that came since the one before. An empty `Said`
    stands for a long silence."""

    index: int
    part: Part
    scored: Sequence[Scored] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A choice is complete. reason: in OpenAI's words."""

    index: int
    reason: str
    finish: Finish


class Answer:
    """One chat's choices, running. id: also the engine's, for `/engine/cancel`. logprobs: whether
    they were asked for. created: Unix seconds."""

    def __init__(
        self, engine: Engine, model: LoadedModel, generation: Generation, manner: Manner
    ) -> None:
        self.model = model
        self.created = int(time.time())
        self.choices = len(generation.requests)
        self.id = generation.requests[0].id
        self.prompt_tokens = len(generation.requests[0].prompt)
        self.logprobs = generation.requests[0].logprobs is not None
        self.headers = headers_of(engine, generation)
        self._engine = engine
        self._generation = generation
        self._manner = manner

    async def __aiter__(self) -> AsyncIterator[Grown | Ended]:
        """What comes, until every choice has ended. Raises ApiError if one never will."""
        readers = [_ChoiceReader(i, PartReader(self._manner)) for i in range(self.choices)]
        async for index, update in self._generation:
            match update:
                case Delta():
                    for grown in readers[index].delta(update):
                        yield grown
                case Finish():
                    if failure := failure_of(update, self._engine):
                        self._generation.cancel()
                        raise failure
                    for last in readers[index].finish(update):
                        yield last


class _ChoiceReader:
    """One choice's updates as parts."""

    def __init__(self, index: int, parts: PartReader) -> None:
        self._index = index
        self._parts = parts
        self._scored: list[Scored] = []
        self._called = False

    def delta(self, delta: Delta) -> list[Grown]:
        self._scored.extend(delta.scored)
        parts = self._parts.push(delta.text)
        silent = not delta.text and not delta.tokens
        return self._grown(parts or ([Said("")] if silent else []))

    def finish(self, finish: Finish) -> list[Grown | Ended]:
        rest = self._grown(self._parts.flush())
        if self._scored:
            rest += self._grown([Said("")])
        called = self._called and finish.reason is FinishReason.STOP
        return [*rest, Ended(self._index, TOOL_CALLS if called else finish.reason, finish)]

    def _grown(self, parts: Sequence[Part]) -> list[Grown]:
        grown = []
        for part in parts:
            self._called = self._called or isinstance(part, Called)
            grown.append(Grown(self._index, part, tuple(self._scored)))
            self._scored.clear()
        return grown


async def begin(body: ChatRequest, http: Request) -> Answer:
    """Submit a chat. It is cancelled when the client disconnects. Raises ApiError."""
    engine: Engine = http.app.state.engine
    model = loaded(engine)
    source = source_of(http.headers)
    try:
        chat = await run_in_threadpool(prepared, body, model.tokenizer, engine.longest_row, source)
        generation = Generation(engine, choices(chat.request, body.n or 1), http)
    except EngineError as error:
        raise refused(error, "messages") from error
    return Answer(engine, model, generation, chat.manner)


def headers_of(engine: Engine, generation: Generation) -> dict[str, str]:
    """What a client is told before the first word: the name to cancel by, and why it may wait."""
    headers = {"X-Request-Id": generation.requests[0].id}
    if engine.snapshot().paused:
        headers["X-Dspark-Paused"] = "true"
    return headers


def failure_of(finish: Finish, engine: Engine) -> ApiError | None:
    """What a failed request makes of the whole answer."""
    match finish.reason:
        case FinishReason.ERROR:
            message = finish.error or "The request failed."
            return ApiError(500, message, code="generation_failed")
        case FinishReason.CANCELLED:
            if engine.snapshot().status is EngineStatus.STOPPING:
                return ApiError(503, "The engine is stopping.", code="engine_unavailable")
            return ApiError(CLIENT_CLOSED, "The request was cancelled.", code="cancelled")
        case _:
            return None


def loaded(engine: Engine) -> LoadedModel:
    """The engine's model. Raises ApiError while there is none."""
    model = engine.model
    if model is not None:
        return model
    state = engine.snapshot()
    if state.status is EngineStatus.LOADING:
        stage = f" ({state.progress.stage})" if state.progress else ""
        raise ApiError(
            503,
            f"The model is still loading{stage}; try again in a moment.",
            code="loading",
            retry_after=RETRY_WHILE_LOADING,
        )
    message = state.error or "The engine is stopping."
    raise ApiError(503, message, code="engine_unavailable")
