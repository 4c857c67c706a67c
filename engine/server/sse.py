"""Server-sent events: one JSON value per frame."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"
"""Ends a complete answer; never follows an error."""

HEARTBEAT = b": still here\n\n"
"""A comment: tells a quiet connection from a dead one, and clients skip it."""

FILLER = "filler"
"""Where a request's state has what may be written between two pieces of its answer."""

QUIET_SECONDS = 10.0
"""Silence after which a stream shows that it is alive."""


def frame(value: BaseModel | Mapping[str, Any], event: str | None = None) -> bytes:
    """One frame, with the event's name if it has one. JSON escapes line breaks, so the value can't
    break the framing."""
    if isinstance(value, BaseModel):
        text = value.model_dump_json()
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {text}\n\n".encode()


class EventStream(StreamingResponse):
    """A response whose frames reach the client one by one, through proxies too."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], headers: Mapping[str, str] = {}) -> None:
        super().__init__(
            frames, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **headers}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[FILLER] = HEARTBEAT
        await super().__call__(scope, receive, send)
