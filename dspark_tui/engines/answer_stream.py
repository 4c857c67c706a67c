"""A streamed answer as it comes over HTTP, chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
from httpx_sse import EventSource

from dspark_tui.engines.chat_updates import CANCELLED, STOPPING, Ended, Text
from dspark_tui.engines.client_errors import ClientError, ConnectionLostError, error_line

THINKS, HAS_THOUGHT = "<think>\n", "\n</think>\n\n"
"""Around reasoning that a server sends apart from the answer: as models write it themselves."""


async def updates(response: httpx.Response) -> AsyncIterator[Text | Ended]:
    """A streamed answer's chunks as updates; ends with exactly one Ended or a ClientError."""
    reason = ""
    thinking = False
    counts: tuple[int | None, ...] = (None,)
    async for frame in EventSource(response).aiter_sse():
        if frame.data == "[DONE]":
            break
        chunk = json.loads(frame.data)
        if error := chunk.get("error"):
            code = error.get("code") if isinstance(error, dict) else None
            if code == CANCELLED:
                yield Ended(CANCELLED, *counts)
                return
            kind = ConnectionLostError if code == STOPPING else ClientError
            raise kind(error_line(error))
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content") or delta.get("reasoning"):
                yield Text(thought if thinking else f"{THINKS}{thought}")
                thinking = True
            if text := delta.get("content"):
                yield Text(f"{HAS_THOUGHT}{text}" if thinking else text)
                thinking = False
            reason = choice.get("finish_reason") or reason
        if usage := chunk.get("usage"):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            counts = (usage.get("completion_tokens"), usage.get("prompt_tokens"), cached)
    if not reason:
        raise ConnectionLostError("the answer broke off")
    yield Ended(reason, *counts)
