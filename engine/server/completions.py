"""`POST /v1/completions`: what follows each of some raw prompts, all in the batch at once."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
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
from engine.server.translate import (
    choices,
    generation_request,
    refuse_unknown,
    refuse_unsupported,
)
from engine.server.wire_completions import (
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    CompletionRequest,
)
from engine.server.wire_counts import TimingsBody, UsageBody
from engine.types import Delta, EngineError, Finish, GenerationRequest, Scored, ScoredPrompt

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
    id = f"cmpl-{secrets.token_hex(12)}"
    prepared = []
    for place, prompt in enumerate(body.prompt):
        request = generation_request(
            body,
            _tokens(prompt, tokenizer),
            tokenizer.vocab_size,
            context,
            source,
            id=f"{id}.{place}" if place else id,
            max_tokens=DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens,
            logprobs=body.logprobs,
        )
        if body.echo:
            request = replace(request, prompt_logprobs=body.logprobs)
        prepared.append(_Prompt(request, _text(prompt, tokenizer) if body.echo else ""))
    return prepared


def _tokens(prompt: str | list[int], tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    if not ids:
        raise ApiError(400, "A prompt is empty.", param="prompt", code="missing_value")
    refuse_unknown(ids, tokenizer.vocab_size, "prompt")
    return ids


def _text(prompt: str | list[int], tokenizer: Tokenizer) -> str:
    return prompt if isinstance(prompt, str) else tokenizer.decode(prompt, special=True)


def _unsupported(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="unsupported_parameter")


@dataclass(frozen=True, slots=True)
class _Answer:
    """Rows in this protocol's words. each: choices of a prompt. echoes: one for each row."""

    engine: Engine
    model: LoadedModel
    generation: Generation
    each: int
    echoes: Sequence[str]
    created: int = field(default_factory=lambda: int(time.time()))
    finishes: dict[int, Finish] = field(default_factory=dict)

    async def whole(self) -> Completion:
        """The answer once it is complete. Raises ApiError if it never will be."""
        choices: list[list[CompletionChoice]] = [[] for _ in self.echoes]
        async for piece in self._pieces():
            choices[piece.index].append(piece)
        scored = self.generation.requests[0].logprobs is not None
        answer = self._completion([_put_together(pieces, scored) for pieces in choices])
        self._count(answer)
        return answer

    async def frames(self, with_usage: bool) -> AsyncIterator[bytes]:
        """The answer as it grows."""
        try:
            async for piece in self._pieces():
                yield frame(self._completion([piece]))
        except ApiError as error:
            yield frame(error.payload())
            return
        if with_usage:
            counted = self._completion([])
            self._count(counted)
            yield frame(counted)
        yield DONE

    async def _pieces(self) -> AsyncIterator[CompletionChoice]:
        """What comes of the choices: echo, text, end. An echo comes with its tokens' scores, if
        those are wanted. Raises ApiError when a row fails, and ends the others."""
        lengths = [len(echo) for echo in self.echoes]
        for index, echo in enumerate(self.echoes):
            if echo and self.generation.requests[index].prompt_logprobs is None:
                yield CompletionChoice(index=index, text=echo)
        async for index, update in self.generation:
            match update:
                case ScoredPrompt(scored=scored):
                    yield await run_in_threadpool(self._echoed, index, scored)
                case Delta(text=text, scored=scored):
                    scores = self._scores(scored, text, lengths[index])
                    yield CompletionChoice(index=index, text=text, logprobs=scores)
                    lengths[index] += len(text)
                case Finish(reason=reason, end=end):
                    if failure := failure_of(update, self.engine):
                        self.generation.cancel()
                        raise failure
                    self.finishes[index] = update
                    scores = self._scores([end] if end else [], "", lengths[index])
                    yield CompletionChoice(
                        index=index, text="", logprobs=scores, finish_reason=reason
                    )

    def _echoed(self, index: int, scored: Sequence[Scored]) -> CompletionChoice:
        """The prompt's text. Names every token: keep it off the event loop."""
        prompt, text = self.generation.requests[index].prompt, self.echoes[index]
        scores = legacy_logprobs(prompt, [None, *scored], text, 0, self.model.tokenizer)
        return CompletionChoice(index=index, text=text, logprobs=scores)

    def _scores(
        self, scored: Sequence[Scored], text: str, offset: int
    ) -> CompletionLogprobs | None:
        if not scored:
            return None
        tokens = [each.picked.token for each in scored]
        return legacy_logprobs(tokens, scored, text, offset, self.model.tokenizer)

    def _completion(self, choices: list[CompletionChoice]) -> Completion:
        return Completion(
            id=self.generation.requests[0].id,
            created=self.created,
            model=self.model.info.id,
            choices=choices,
        )

    def _count(self, answer: Completion) -> None:
        usages = [self.finishes[index].usage for index in range(len(self.echoes))]
        prompts = [usages[at : at + self.each] for at in range(0, len(usages), self.each)]
        answer.usage = UsageBody.of_prompts(prompts)
        answer.timings = TimingsBody.of([finish.timings for finish in self.finishes.values()])


def _put_together(pieces: Sequence[CompletionChoice], scored: bool) -> CompletionChoice:
    """A whole choice from its pieces, whose last is its end. scored: whether it should be."""
    scores = [piece.logprobs for piece in pieces if piece.logprobs is not None]
    return CompletionChoice(
        index=pieces[-1].index,
        text="".join(piece.text for piece in pieces),
        logprobs=joined(scores) if scored else None,
        finish_reason=pieces[-1].finish_reason,
    )
