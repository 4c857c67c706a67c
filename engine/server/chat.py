"""`POST /v1/chat/completions`: one answer from the batch, streamed or whole.

An answer is one request to the engine, or several with `n`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from engine.engine import Engine
from engine.events import EngineStatus
from engine.server.errors import CLIENT_CLOSED, ApiError, refused
from engine.server.generation import Generation
from engine.server.scores import logprobs_body
from engine.server.source import source_of
from engine.server.sse import DONE, EventStream, frame
from engine.server.translate import choices, generation_request
from engine.server.wire import (
    AnswerMessage,
    ChatChunk,
    ChatCompletion,
    ChatRequest,
    Choice,
    ChoiceLogprobs,
    ChunkChoice,
    ChunkDelta,
    TimingsBody,
    UsageBody,
)
from engine.types import Delta, EngineError, Finish, FinishReason, Scored

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
    model = loaded(engine)
    try:
        request = await run_in_threadpool(
            generation_request, body, model.tokenizer, engine.longest_row, source_of(http.headers)
        )
        requests = choices(request, body.n or 1)
        generation = Generation(engine, requests, http)
    except EngineError as error:
        raise refused(error) from error
    answer = Answer(
        engine=engine,
        generation=generation,
        id=request.id,
        model=model,
        choices=len(requests),
        logprobs=request.logprobs is not None,
        created=int(time.time()),
    )
    headers = {"X-Request-Id": request.id}
    if engine.snapshot().paused:
        headers["X-Dspark-Paused"] = "true"
    if body.stream:
        return EventStream(answer.frames(body.wants_usage), headers)
    completion = await answer.whole()
    return Response(completion.model_dump_json(), media_type="application/json", headers=headers)


@dataclass(slots=True)
class Said:
    """One choice of an answer, as far as it has come."""

    text: list[str] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """A generation in the protocol's words. choices: their number. logprobs: whether they are
    asked for. created: Unix seconds of this request."""

    engine: Engine
    generation: Generation
    id: str
    model: LoadedModel
    choices: int
    logprobs: bool
    created: int

    async def whole(self) -> ChatCompletion:
        """The answer once it is complete. Raises ApiError if it never will be."""
        said = [Said() for _ in range(self.choices)]
        finishes: dict[int, Finish] = {}
        async for index, update in self.generation:
            match update:
                case Delta():
                    said[index].text.append(update.text)
                    said[index].scored.extend(update.scored)
                case Finish():
                    if failure := self._failure(update):
                        self.generation.cancel()
                        raise failure
                    finishes[index] = update
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model.info.id,
            choices=[self._choice(i, said[i], finishes[i].reason) for i in range(self.choices)],
            usage=UsageBody.of([finish.usage for finish in finishes.values()]),
            timings=TimingsBody.of([finish.timings for finish in finishes.values()]),
        )

    async def frames(self, with_usage: bool) -> AsyncIterator[bytes]:
        """The answer as it grows."""
        for index in range(self.choices):
            yield self._frame(index, ChunkDelta(role="assistant", content=""))
        finishes = []
        async for index, update in self.generation:
            match update:
                case Delta():
                    yield self._frame(index, ChunkDelta(content=update.text), update.scored)
                case Finish():
                    if failure := self._failure(update):
                        self.generation.cancel()
                        yield frame(failure.payload())
                        return
                    finishes.append(update)
                    yield self._frame(index, ChunkDelta(), reason=update.reason)
        if with_usage:
            yield frame(self._usage(finishes))
        yield DONE

    def _choice(self, index: int, said: Said, reason: str) -> Choice:
        return Choice(
            index=index,
            message=AnswerMessage(content="".join(said.text)),
            logprobs=self._logprobs(said.scored),
            finish_reason=reason,
        )

    def _frame(
        self,
        index: int,
        delta: ChunkDelta,
        scored: Sequence[Scored] = (),
        reason: str | None = None,
    ) -> bytes:
        logprobs = self._logprobs(scored) if scored else None
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        return frame(self._chunk([choice]))

    def _usage(self, finishes: Sequence[Finish]) -> ChatChunk:
        chunk = self._chunk([])
        chunk.usage = UsageBody.of([finish.usage for finish in finishes])
        chunk.timings = TimingsBody.of([finish.timings for finish in finishes])
        return chunk

    def _chunk(self, choices: list[ChunkChoice]) -> ChatChunk:
        return ChatChunk(
            id=self.id, created=self.created, model=self.model.info.id, choices=choices
        )

    def _logprobs(self, scored: Sequence[Scored]) -> ChoiceLogprobs | None:
        return logprobs_body(scored, self.model.tokenizer) if self.logprobs else None

    def _failure(self, finish: Finish) -> ApiError | None:
        """What a failed choice makes of the whole answer."""
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
