"""`POST /v1/chat/completions`: one answer from the batch, streamed or whole.

An answer is one request to the engine, or several with `n`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response

from engine.server.answer import Answer, Ended, Grown, begin
from engine.server.errors import ApiError
from engine.server.parts import Called, Part, Said, Thought
from engine.server.scores import logprobs_body
from engine.server.sse import DONE, EventStream, frame
from engine.server.wire import (
    AnswerMessage,
    ChatChunk,
    ChatCompletion,
    ChatRequest,
    Choice,
    ChoiceLogprobs,
    ChunkChoice,
    ChunkDelta,
)
from engine.server.wire_counts import TimingsBody, UsageBody
from engine.server.wire_tools import CalledFunction, FunctionDelta, ToolCall, ToolCallDelta
from engine.types import Finish, Scored

router = APIRouter(tags=["OpenAI"])


@router.post("/chat/completions", response_model=ChatCompletion)
async def create_chat_completion(body: ChatRequest, http: Request) -> Response:
    """Answer a chat. Cancelled when the client disconnects; `X-Request-Id` names it for
    `/engine/cancel`."""
    answer = await begin(body, http)
    if body.stream:
        return EventStream(_Chunks(answer).frames(body.wants_usage), answer.headers)
    completion = await _whole(answer)
    text = completion.model_dump_json()
    return Response(text, media_type="application/json", headers=answer.headers)


@dataclass(slots=True)
class _Choice:
    """A choice as far as it has come."""

    thoughts: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)

    def add(self, part: Part, scored: Sequence[Scored]) -> None:
        self.scored.extend(scored)
        match part:
            case Thought(text):
                self.thoughts.append(text)
            case Said(text):
                self.text.append(text)
            case Called(id, name, arguments):
                function = CalledFunction(name=name, arguments=arguments)
                self.calls.append(ToolCall(id=id, function=function))

    def message(self) -> AnswerMessage:
        text = "".join(self.text)
        return AnswerMessage(
            content=text if text or not self.calls else None,
            reasoning_content="".join(self.thoughts) or None,
            tool_calls=self.calls or None,
        )


async def _whole(answer: Answer) -> ChatCompletion:
    """The answer once it is complete. Raises ApiError if it never will be."""
    choices = [_Choice() for _ in range(answer.choices)]
    ends: dict[int, Ended] = {}
    async for update in answer:
        match update:
            case Grown(index, part, scored):
                choices[index].add(part, scored)
            case Ended(index):
                ends[index] = update
    finishes = [ended.finish for ended in ends.values()]
    return ChatCompletion(
        id=answer.id,
        created=answer.created,
        model=answer.model.info.id,
        choices=[
            Choice(
                index=index,
                message=choice.message(),
                logprobs=_logprobs(answer, choice.scored),
                finish_reason=ends[index].reason,
            )
            for index, choice in enumerate(choices)
        ],
        usage=UsageBody.of([finish.usage for finish in finishes]),
        timings=TimingsBody.of([finish.timings for finish in finishes]),
    )


class _Chunks:
    """The answer as it grows."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls = [0] * answer.choices

    async def frames(self, with_usage: bool) -> AsyncIterator[bytes]:
        for index in range(self._answer.choices):
            yield self._frame(index, ChunkDelta(role="assistant", content=""))
        finishes = []
        try:
            async for update in self._answer:
                match update:
                    case Grown(index, part, scored):
                        for delta in self._deltas(index, part):
                            yield self._frame(index, delta, scored)
                            scored = ()
                    case Ended(index, reason, finish):
                        finishes.append(finish)
                        yield self._frame(index, ChunkDelta(), reason=reason)
        except ApiError as error:
            yield frame(error.payload())
            return
        if with_usage:
            yield frame(self._usage(finishes))
        yield DONE

    def _deltas(self, index: int, part: Part) -> list[ChunkDelta]:
        match part:
            case Thought(text):
                return [ChunkDelta(reasoning_content=text)]
            case Said(text):
                return [ChunkDelta(content=text)]
            case Called():
                place, self._calls[index] = self._calls[index], self._calls[index] + 1
                return [ChunkDelta(tool_calls=[delta]) for delta in _call_deltas(place, part)]

    def _frame(
        self,
        index: int,
        delta: ChunkDelta,
        scored: Sequence[Scored] = (),
        reason: str | None = None,
    ) -> bytes:
        logprobs = _logprobs(self._answer, scored) if scored else None
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        return frame(self._chunk([choice]))

    def _usage(self, finishes: Sequence[Finish]) -> ChatChunk:
        chunk = self._chunk([])
        chunk.usage = UsageBody.of([finish.usage for finish in finishes])
        chunk.timings = TimingsBody.of([finish.timings for finish in finishes])
        return chunk

    def _chunk(self, choices: list[ChunkChoice]) -> ChatChunk:
        answer = self._answer
        return ChatChunk(
            id=answer.id, created=answer.created, model=answer.model.info.id, choices=choices
        )


def _call_deltas(place: int, call: Called) -> list[ToolCallDelta]:
    named = FunctionDelta(name=call.name, arguments="")
    return [
        ToolCallDelta(index=place, id=call.id, type="function", function=named),
        ToolCallDelta(index=place, function=FunctionDelta(arguments=call.arguments)),
    ]


def _logprobs(answer: Answer, scored: Sequence[Scored]) -> ChoiceLogprobs | None:
    return logprobs_body(scored, answer.model.tokenizer) if answer.logprobs else None
