"""`POST /v1/messages` and `/v1/messages/count_tokens`: a chat in Anthropic's words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from engine.server.answer import TOOL_CALLS, Answer, Ended, Grown, begin, loaded
from engine.server.errors import ApiError
from engine.server.messages_input import chat_of
from engine.server.parts import Called, Part, Said, Thought
from engine.server.sse import EventStream, frame
from engine.server.translate import chat_prompt
from engine.server.wire_messages import (
    BlockDelta,
    CountRequest,
    MessageBody,
    MessageEvent,
    MessagesRequest,
    MessageUsage,
    OutputBlock,
    StopDelta,
    StopReason,
    TextBlock,
    ThinkingBlock,
    TokenCount,
    ToolUseBlock,
)
from engine.types import Finish, FinishReason

router = APIRouter(tags=["Anthropic"])


@router.post("/messages", response_model=MessageBody)
async def create_message(body: MessagesRequest, http: Request) -> Response:
    """Answer a chat. Cancelled when the client disconnects; `X-Request-Id` names it for
    `/engine/cancel`."""
    answer = await begin(chat_of(body), http)
    writer = _Writer(answer)
    if body.stream:
        return EventStream(_frames(writer, answer, http.url.path), answer.headers)
    async for update in answer:
        for _ in writer.take(update):
            pass
    text = writer.message.model_dump_json()
    return Response(text, media_type="application/json", headers=answer.headers)


@router.post("/messages/count_tokens")
async def count_tokens(body: CountRequest, http: Request) -> TokenCount:
    """The prompt's tokens, tools and the template's own included."""
    tokenizer = loaded(http.app.state.engine).tokenizer
    return TokenCount(
        input_tokens=len(await run_in_threadpool(chat_prompt, chat_of(body), tokenizer))
    )


async def _frames(writer: _Writer, answer: Answer, path: str) -> AsyncIterator[bytes]:
    ping = MessageEvent(type="ping")
    yield _frame(writer.begin())
    yield _frame(ping)
    try:
        async for update in answer:
            silent = True
            for event in writer.take(update):
                silent = False
                yield _frame(event)
            if silent:
                yield _frame(ping)
    except ApiError as error:
        yield frame(error.payload_for(path), "error")


def _frame(event: MessageEvent) -> bytes:
    return frame(event, event.type)


class _Writer:
    """Builds the message, and tells each change of it as an event. message: so far."""

    def __init__(self, answer: Answer) -> None:
        usage = MessageUsage(input_tokens=answer.prompt_tokens, output_tokens=0)
        id = answer.id.replace("chatcmpl-", "msg_")
        self.message = MessageBody(id=id, model=answer.model.info.id, usage=usage)
        self._open: OutputBlock | None = None

    def begin(self) -> MessageEvent:
        return MessageEvent(type="message_start", message=self.message)

    def take(self, update: Grown | Ended) -> Iterator[MessageEvent]:
        match update:
            case Grown(part=part):
                yield from self._add(part)
            case Ended():
                yield from self._close()
                yield from self._end(update)

    def _add(self, part: Part) -> Iterator[MessageEvent]:
        match part:
            case Said(text=""):
                return
            case Thought(text):
                if not isinstance(self._open, ThinkingBlock):
                    yield from self._start(ThinkingBlock(thinking=""))
                yield self._write(BlockDelta(type="thinking_delta", thinking=text))
            case Said(text):
                if not isinstance(self._open, TextBlock):
                    yield from self._start(TextBlock(text=""))
                yield self._write(BlockDelta(type="text_delta", text=text))
            case Called(id, name, arguments):
                yield from self._start(ToolUseBlock(id=id, name=name, input={}))
                yield self._write(BlockDelta(type="input_json_delta", partial_json=arguments))
                yield from self._close()

    def _start(self, block: OutputBlock) -> Iterator[MessageEvent]:
        yield from self._close()
        self._open = block
        self.message.content.append(block)
        yield self._on_block("content_block_start", content_block=block)

    def _write(self, delta: BlockDelta) -> MessageEvent:
        match self._open:
            case TextBlock() as block:
                block.text += delta.text or ""
            case ThinkingBlock() as block:
                block.thinking += delta.thinking or ""
            case ToolUseBlock() as block:
                block.input = json.loads(delta.partial_json or "{}")
        return self._on_block("content_block_delta", delta=delta)

    def _close(self) -> Iterator[MessageEvent]:
        """End the block being written, if there is one."""
        if self._open is None:
            return
        if isinstance(self._open, ThinkingBlock):
            unsigned = BlockDelta(type="signature_delta", signature="")
            yield self._on_block("content_block_delta", delta=unsigned)
        yield self._on_block("content_block_stop")
        self._open = None

    def _end(self, ended: Ended) -> Iterator[MessageEvent]:
        finish = ended.finish
        self.message.stop_reason = _stop_reason(ended)
        self.message.stop_sequence = finish.stop
        self.message.usage = _usage(finish)
        delta = StopDelta(stop_reason=self.message.stop_reason, stop_sequence=finish.stop)
        yield MessageEvent(type="message_delta", delta=delta, usage=self.message.usage)
        yield MessageEvent(type="message_stop")

    def _on_block(self, type: str, **fields: Any) -> MessageEvent:
        return MessageEvent(type=type, index=len(self.message.content) - 1, **fields)


def _stop_reason(ended: Ended) -> StopReason:
    if ended.reason == TOOL_CALLS:
        return "tool_use"
    if ended.finish.reason is FinishReason.LENGTH:
        return "max_tokens"
    return "stop_sequence" if ended.finish.stop is not None else "end_turn"


def _usage(finish: Finish) -> MessageUsage:
    usage = finish.usage
    return MessageUsage(
        input_tokens=usage.prompt_tokens - usage.cached_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_input_tokens=usage.cached_tokens,
    )
