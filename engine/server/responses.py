"""`POST /v1/responses`: a chat in the words of OpenAI's newer protocol. Stateless."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter, Request, Response

from engine.server.answer import Answer, Ended, Grown, begin
from engine.server.errors import ApiError
from engine.server.parts import Called, Part, Said, Thought
from engine.server.responses_input import chat_of
from engine.server.sse import HEARTBEAT, EventStream, frame
from engine.server.wire_responses import (
    CallItem,
    IncompleteDetails,
    InputDetails,
    MessageItem,
    OutputDetails,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponseBody,
    ResponseError,
    ResponseEvent,
    ResponsesRequest,
    ResponseUsage,
    TextOptions,
)
from engine.server.wire_tools import TextFormat
from engine.types import Finish, FinishReason

router = APIRouter(tags=["OpenAI"])


@router.post("/responses", response_model=ResponseBody)
async def create_response(body: ResponsesRequest, http: Request) -> Response:
    """Answer an input. Cancelled when the client disconnects; `X-Request-Id` names it for
    `/engine/cancel`."""
    chat = chat_of(body)
    if (chat.n or 1) > 1:
        raise ApiError(400, "n: a response is one answer.", param="n", code="invalid_value")
    answer = await begin(chat, http)
    writer = _Writer(body, answer)
    if body.stream:
        return EventStream(_frames(writer, answer), answer.headers)
    async for update in answer:
        for _ in writer.take(update):
            pass
    text = writer.response.model_dump_json()
    return Response(text, media_type="application/json", headers=answer.headers)


async def _frames(writer: _Writer, answer: Answer) -> AsyncIterator[bytes]:
    for event in writer.begin():
        yield frame(event, event.type)
    try:
        async for update in answer:
            silent = True
            for event in writer.take(update):
                silent = False
                yield frame(event, event.type)
            if silent:
                yield HEARTBEAT
    except ApiError as error:
        failed = writer.fail(error)
        yield frame(failed, failed.type)


class _Writer:
    """Builds the response, and tells each change of it as an event. response: so far."""

    def __init__(self, body: ResponsesRequest, answer: Answer) -> None:
        self.response = ResponseBody(
            id=answer.id.replace("chatcmpl-", "resp_"),
            created_at=answer.created,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            metadata=body.metadata or {},
            model=answer.model.info.id,
            temperature=body.temperature,
            text=body.text or TextOptions(format=TextFormat(type="text")),
            tool_choice=body.tool_choice or "auto",
            tools=body.tools or [],
            top_p=body.top_p,
        )
        self._tokenizer = answer.model.tokenizer
        self._events = 0

    def begin(self) -> Iterator[ResponseEvent]:
        yield self._event("response.created", response=self.response)
        yield self._event("response.in_progress", response=self.response)

    def take(self, update: Grown | Ended) -> Iterator[ResponseEvent]:
        match update:
            case Grown(part=part):
                yield from self._add(part)
            case Ended(finish=finish):
                yield from self._end(finish)

    def fail(self, error: ApiError) -> ResponseEvent:
        self.response.status = "failed"
        code = error.body.code or "server_error"
        self.response.error = ResponseError(code=code, message=error.body.message)
        return self._event("response.failed", response=self.response)

    def _add(self, part: Part) -> Iterator[ResponseEvent]:
        match part:
            case Said(text=""):
                return
            case Thought(text):
                if not isinstance(self._open, ReasoningItem):
                    yield from self._start(ReasoningItem(content=[ReasoningText()]))
                yield from self._write("response.reasoning_text.delta", text)
            case Said(text):
                if not isinstance(self._open, MessageItem):
                    yield from self._start(MessageItem())
                    yield from self._start_text()
                yield from self._write("response.output_text.delta", text)
            case Called(id, name, arguments):
                yield from self._start(CallItem(call_id=id, name=name))
                yield from self._write("response.function_call_arguments.delta", arguments)
                yield from self._close("completed")

    def _end(self, finish: Finish) -> Iterator[ResponseEvent]:
        whole = finish.reason is not FinishReason.LENGTH
        yield from self._close("completed" if whole else "incomplete")
        self.response.status = "completed" if whole else "incomplete"
        self.response.incomplete_details = None if whole else IncompleteDetails()
        self.response.usage = self._usage(finish)
        yield self._event(f"response.{self.response.status}", response=self.response)

    @property
    def _open(self) -> OutputItem | None:
        """The item being written."""
        last = self.response.output[-1] if self.response.output else None
        return last if last is not None and last.status == "in_progress" else None

    def _start(self, item: OutputItem) -> Iterator[ResponseEvent]:
        yield from self._close("completed")
        self.response.output.append(item)
        yield self._on_item("response.output_item.added", item=item)

    def _start_text(self) -> Iterator[ResponseEvent]:
        item = self._open
        assert isinstance(item, MessageItem)
        item.content.append(OutputText())
        yield self._on_text("response.content_part.added", part=item.content[0])

    def _write(self, event: str, text: str) -> Iterator[ResponseEvent]:
        match self._open:
            case CallItem() as item:
                item.arguments += text
                yield self._on_item(event, item_id=item.id, delta=text)
            case ReasoningItem(content=[part]) | MessageItem(content=[part]):
                part.text += text
                yield self._on_text(event, delta=text)

    def _close(self, status: str) -> Iterator[ResponseEvent]:
        """End the item being written, if there is one."""
        match self._open:
            case None:
                return
            case CallItem() as item:
                done = {"name": item.name, "arguments": item.arguments}
                yield self._on_item(
                    "response.function_call_arguments.done", item_id=item.id, **done
                )
            case ReasoningItem(content=[thought]) as item:
                yield self._on_text("response.reasoning_text.done", text=thought.text)
            case MessageItem(content=[part]) as item:
                yield self._on_text("response.output_text.done", text=part.text)
                yield self._on_text("response.content_part.done", part=part)
        closed = item.model_copy(update={"status": status})
        yield self._on_item("response.output_item.done", item=closed)
        self.response.output[-1] = closed

    def _on_text(self, type: str, **fields: Any) -> ResponseEvent:
        return self._on_item(type, item_id=self.response.output[-1].id, content_index=0, **fields)

    def _on_item(self, type: str, **fields: Any) -> ResponseEvent:
        return self._event(type, output_index=len(self.response.output) - 1, **fields)

    def _event(self, type: str, **fields: Any) -> ResponseEvent:
        number, self._events = self._events, self._events + 1
        return ResponseEvent(type=type, sequence_number=number, **fields)

    def _usage(self, finish: Finish) -> ResponseUsage:
        usage = finish.usage
        thoughts = [item for item in self.response.output if isinstance(item, ReasoningItem)]
        text = "".join(part.text for item in thoughts for part in item.content)
        return ResponseUsage(
            input_tokens=usage.prompt_tokens,
            input_tokens_details=InputDetails(cached_tokens=usage.cached_tokens),
            output_tokens=usage.completion_tokens,
            output_tokens_details=OutputDetails(
                reasoning_tokens=len(self._tokenizer.encode(text, special=False))
            ),
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
        )
