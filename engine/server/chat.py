"""`POST /v1/chat/completions`: one request into the batch, its answer streamed or whole."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from engine.engine import Engine
from engine.events import EngineStatus
from engine.server.errors import CLIENT_CLOSED, ApiError, refused
from engine.server.generation import Generation
from engine.server.source import source_of
from engine.server.sse import DONE, EventStream, frame
from engine.server.translate import generation_request
from engine.server.wire import (
    AnswerMessage,
    ChatChunk,
    ChatCompletion,
    ChatRequest,
    Choice,
    ChunkChoice,
    ChunkDelta,
    TimingsBody,
    UsageBody,
)
from engine.types import Delta, EngineError, Finish, FinishReason

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

RETRY_WHILE_LOADING = 2
"""Seconds after which asking again makes sense."""

router = APIRouter(tags=["OpenAI"])


@router.post("/chat/completions", response_model=ChatCompletion)
async def create_chat_completion(body: ChatRequest, http: Request) -> Response:
    """Answer a chat. Cancelled when the client disconnects; `X-Request-Id` names it for
    `/engine/cancel`."""
    engine: Engine = http.app.state.engine
    model = _loaded(engine)
    try:
        request = await run_in_threadpool(
            generation_request, body, model.tokenizer, engine.longest_row, source_of(http.headers)
        )
        generation = Generation(engine, request, http)
    except EngineError as error:
        raise refused(error) from error
    answer = Answer(engine, generation, request.id, model.info.id, int(time.time()))
    headers = {"X-Request-Id": request.id}
    if engine.snapshot().paused:
        headers["X-Dspark-Paused"] = "true"
    if body.stream:
        return EventStream(answer.frames(body.wants_usage), headers)
    completion = await answer.whole()
    return Response(completion.model_dump_json(), media_type="application/json", headers=headers)


@dataclass(frozen=True, slots=True)
class Answer:
    """A generation in the protocol's words. created: Unix seconds of this request."""

    engine: Engine
    generation: Generation
    id: str
    model: str
    created: int

    async def whole(self) -> ChatCompletion:
        """The answer once it is complete. Raises ApiError if it never will be."""
        text: list[str] = []
        async for update in self.generation:
            match update:
                case Delta():
                    text.append(update.text)
                case Finish():
                    finish = update
        if failure := self._failure(finish):
            raise failure
        message = AnswerMessage(content="".join(text))
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[Choice(message=message, finish_reason=finish.reason)],
            usage=UsageBody.of(finish.usage),
            timings=TimingsBody.of(finish.timings),
        )

    async def frames(self, with_usage: bool) -> AsyncIterator[bytes]:
        """The answer as it grows."""
        yield frame(self._chunk(ChunkDelta(role="assistant", content="")))
        async for update in self.generation:
            match update:
                case Delta():
                    yield frame(self._chunk(ChunkDelta(content=update.text)))
                case Finish():
                    for last in self._ending(update, with_usage):
                        yield last

    def _ending(self, finish: Finish, with_usage: bool) -> Iterator[bytes]:
        if failure := self._failure(finish):
            yield frame(failure.payload())
            return
        yield frame(self._chunk(ChunkDelta(), finish.reason))
        if with_usage:
            yield frame(self._usage(finish))
        yield DONE

    def _chunk(self, delta: ChunkDelta, reason: str | None = None) -> ChatChunk:
        choice = ChunkChoice(delta=delta, finish_reason=reason)
        return ChatChunk(id=self.id, created=self.created, model=self.model, choices=[choice])

    def _usage(self, finish: Finish) -> ChatChunk:
        return ChatChunk(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[],
            usage=UsageBody.of(finish.usage),
            timings=TimingsBody.of(finish.timings),
        )

    def _failure(self, finish: Finish) -> ApiError | None:
        match finish.reason:
            case FinishReason.ERROR:
                message = finish.error or "The request failed."
                return ApiError(500, message, code="generation_failed")
            case FinishReason.CANCELLED:
                if self.engine.snapshot().status is EngineStatus.STOPPING:
                    return ApiError(503, "The engine is stopping.", code="engine_unavailable")
                return ApiError(CLIENT_CLOSED, "The request was cancelled.", code="cancelled")
            case _:
                return None


def _loaded(engine: Engine) -> LoadedModel:
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
