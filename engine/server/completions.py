"""`POST /v1/completions`: what follows each of some raw prompts, all in the batch at once."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from engine.engine import Engine
from engine.server.answer import failure_of, headers_of, loaded
from engine.server.errors import ApiError, refused
from engine.server.generation import Generation
from engine.server.scores import joined, legacy_logprobs
from engine.server.source import source_of
from engine.server.sse import DONE, EventStream, frame
from engine.server.translate import choices, generation_request, refuse_unsupported
from engine.server.wire_completions import (
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    CompletionRequest,
)
from engine.server.wire_counts import TimingsBody, UsageBody
from engine.types import Delta, EngineError, Finish, GenerationRequest

if TYPE_CHECKING:
    from engine.models.load import LoadedModel
    from engine.models.tokenizer import Tokenizer

DEFAULT_TOKENS = 16
"""As long an answer as this protocol gives to those who don't say."""

router = APIRouter(tags=["OpenAI"])


@router.post("/completions", response_model=Completion)
async def create_completion(body: CompletionRequest, http: Request) -> Response:
    """Continue each prompt. Cancelled when the client disconnects."""
    engine: Engine = http.app.state.engine
    model = loaded(engine)
    source = source_of(http.headers)
    try:
        prompts = await run_in_threadpool(
            _prepared, body, model.tokenizer, engine.longest_row, source
        )
        rows = [row for prompt in prompts for row in choices(prompt.request, body.n or 1)]
        generation = Generation(engine, rows, http)
    except EngineError as error:
        raise refused(error, "prompt") from error
    echoes = [prompt.echo for prompt in prompts for _ in range(body.n or 1)]
    answer = _Answer(engine, model, generation, body.n or 1, echoes)
    headers = headers_of(engine, generation)
    if body.stream:
        return EventStream(answer.frames(body.wants_usage), headers)
    completion = await answer.whole()
    return Response(completion.model_dump_json(), media_type="application/json", headers=headers)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """echo: what the answer repeats of the prompt, "" if nothing."""

    request: GenerationRequest
    echo: str


def _prepared(
    body: CompletionRequest, tokenizer: Tokenizer, context: int, source: str
) -> list[_Prompt]:
    """Tokenizes: keep it off the event loop. Raises ApiError, ContextLengthError."""
    refuse_unsupported(body)
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise _unsupported("best_of", "best_of other than n is not supported here; leave it out.")
    if body.echo and body.logprobs is not None:
        raise _unsupported("echo", "A prompt's own logprobs are not computed here; leave out echo.")
    id = f"cmpl-{secrets.token_hex(12)}"
    return [
        _Prompt(
            generation_request(
                body,
                _tokens(prompt, tokenizer),
                tokenizer.vocab_size,
                context,
                source,
                id=f"{id}.{place}" if place else id,
                max_tokens=body.max_tokens or DEFAULT_TOKENS,
                logprobs=body.logprobs,
            ),
            _text(prompt, tokenizer) if body.echo else "",
        )
        for place, prompt in enumerate(body.prompt)
    ]


def _tokens(prompt: str | list[int], tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    if not ids:
        raise ApiError(400, "A prompt is empty.", param="prompt", code="missing_value")
    if max(ids) >= tokenizer.vocab_size:
        text = f"prompt: {max(ids)} is no token; ids run from 0 to {tokenizer.vocab_size - 1}."
        raise ApiError(400, text, param="prompt", code="invalid_value")
    return ids


def _text(prompt: str | list[int], tokenizer: Tokenizer) -> str:
    return prompt if isinstance(prompt, str) else tokenizer.decode(prompt, special=True)


def _unsupported(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="unsupported_parameter")


@dataclass(slots=True)
class _Choice:
    """A choice as far as it has come. length: characters, of the echo too."""

    text: list[str]
    length: int
    scored: list[CompletionLogprobs] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Rows in this protocol's words. each: choices of a prompt. echoes: one for each row."""

    engine: Engine
    model: LoadedModel
    generation: Generation
    each: int
    echoes: Sequence[str]
    created: int = field(default_factory=lambda: int(time.time()))

    async def whole(self) -> Completion:
        """The answer once it is complete. Raises ApiError if it never will be."""
        rows = [_Choice([echo], len(echo)) for echo in self.echoes]
        finishes: dict[int, Finish] = {}
        async for index, update in self.generation:
            match update:
                case Delta():
                    self._add(rows[index], update)
                case Finish():
                    self._check(update)
                    finishes[index] = update
        answer = self._completion(
            [
                CompletionChoice(
                    index=index,
                    text="".join(row.text),
                    logprobs=joined(row.scored) if self._scores else None,
                    finish_reason=finishes[index].reason,
                )
                for index, row in enumerate(rows)
            ]
        )
        self._count(answer, finishes)
        return answer

    async def frames(self, with_usage: bool) -> AsyncIterator[bytes]:
        """The answer as it grows."""
        rows = [_Choice([], 0) for _ in self.echoes]
        finishes: dict[int, Finish] = {}
        for index, echo in enumerate(self.echoes):
            if echo:
                rows[index].length = len(echo)
                yield self._frame(index, echo)
        try:
            async for index, update in self.generation:
                match update:
                    case Delta():
                        scored = self._add(rows[index], update)
                        yield self._frame(index, update.text, scored)
                    case Finish():
                        self._check(update)
                        finishes[index] = update
                        yield self._frame(index, "", reason=update.reason)
        except ApiError as error:
            yield frame(error.payload())
            return
        if with_usage:
            counted = self._completion([])
            self._count(counted, finishes)
            yield frame(counted)
        yield DONE

    @property
    def _scores(self) -> bool:
        return self.generation.requests[0].logprobs is not None

    def _add(self, row: _Choice, delta: Delta) -> CompletionLogprobs | None:
        scored = None
        if delta.scored:
            scored = legacy_logprobs(delta.scored, row.length, self.model.tokenizer)
            row.scored.append(scored)
        row.text.append(delta.text)
        row.length += len(delta.text)
        return scored

    def _check(self, finish: Finish) -> None:
        """Raises ApiError for a row that failed, and ends the others."""
        if failure := failure_of(finish, self.engine):
            self.generation.cancel()
            raise failure

    def _frame(
        self,
        index: int,
        text: str,
        scored: CompletionLogprobs | None = None,
        reason: str | None = None,
    ) -> bytes:
        choice = CompletionChoice(index=index, text=text, logprobs=scored, finish_reason=reason)
        return frame(self._completion([choice]))

    def _completion(self, choices: list[CompletionChoice]) -> Completion:
        return Completion(
            id=self.generation.requests[0].id,
            created=self.created,
            model=self.model.info.id,
            choices=choices,
        )

    def _count(self, answer: Completion, finishes: dict[int, Finish]) -> None:
        usages = [finishes[index].usage for index in range(len(self.echoes))]
        prompts = [usages[at : at + self.each] for at in range(0, len(usages), self.each)]
        answer.usage = UsageBody.of_prompts(prompts)
        answer.timings = TimingsBody.of([finish.timings for finish in finishes.values()])
