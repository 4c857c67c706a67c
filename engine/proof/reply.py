"""What a server sends back: an answer's pieces, taken into its record, or a refusal."""

from __future__ import annotations

from typing import Any

import httpx

from engine.proof.traffic import Record

TEXTS = ("content", "reasoning_content", "reasoning")
"""Where an answer's text may stand; thoughts are generated tokens like any."""

MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
"""What reading an answer of the wrong shape raises."""


class RefusedError(Exception):
    """The server answered with an error. status: of HTTP, 200 for an error inside a stream."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def take_chunk(record: Record, chunk: Any, now: float) -> None:
    """A piece of a streamed answer. Raises RefusedError for an error in it, or one of MALFORMED."""
    if error := chunk.get("error"):
        raise RefusedError(200, _message(error))
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        if text := "".join(delta.get(key) or "" for key in TEXTS):
            record.received(text, now)
        if choice.get("finish_reason"):
            record.end = now
    _take_usage(record, chunk.get("usage"))


def take_whole(record: Record, document: Any, now: float) -> None:
    """An answer that came at once. Raises as `take_chunk`."""
    if error := document.get("error"):
        raise RefusedError(200, _message(error))
    message = document["choices"][0]["message"]
    if text := "".join(message.get(key) or "" for key in TEXTS):
        record.received(text, now)
        record.end = now
    _take_usage(record, document.get("usage"))


def _take_usage(record: Record, usage: Any) -> None:
    if not usage:
        return
    record.reported = usage.get("completion_tokens")
    record.prompt_tokens = usage.get("prompt_tokens")
    record.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")


def refuse_errors(response: httpx.Response) -> None:
    """Raise what an error status says. The body has been read."""
    if response.is_success:
        return
    try:
        said = _message(response.json()["error"])
    except MALFORMED:
        said = response.reason_phrase
    raise RefusedError(response.status_code, said)


def _message(error: Any) -> str:
    return one_line(error.get("message") if isinstance(error, dict) else error)


def one_line(text: Any) -> str:
    """Whatever a server said, for one line of ours."""
    return " ".join(str(text or "no reason given").split())[:300]
