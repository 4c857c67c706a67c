"""Every refusal as the error object OpenAI clients know: message, type, param, code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from engine.server.mended import TOO_DEEP
from engine.server.wording import in_words
from engine.types import ContextLengthError, EngineError, QueueFullError

CLIENT_CLOSED = 499
"""Status of an answer that was cancelled: clients retry 5xx by themselves, this one never."""

ALTERNATIVE = re.compile(r"str|[A-Z]\w*|.*\[.*\]")
"""How pydantic calls one of the types a value may have, as if it were a place within the value."""

ANTHROPIC_TYPES = {
    404: "not_found_error",
    413: "request_too_large",
    500: "api_error",
    503: "overloaded_error",
}
"""Where Anthropic's word for a status is not OpenAI's."""


@dataclass(frozen=True, slots=True)
class ErrorBody:
    message: str
    type: str
    param: str | None
    code: str | None


class ApiError(HTTPException):
    """A refusal with its HTTP status. retry_after: seconds, for clients that try again."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        headers = None if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status, message, headers)
        self.body = ErrorBody(message, _type(status), param, code)

    def payload(self) -> dict[str, Any]:
        return {"error": asdict(self.body)}

    def payload_for(self, path: str) -> dict[str, Any]:
        """As the clients of that path know errors: Anthropic's have their own kind."""
        if not speaks_anthropic(path):
            return self.payload()
        message = self.body.message
        if self.body.code == "context_length_exceeded":
            message = f"prompt is too long: {message}"
        kind = ANTHROPIC_TYPES.get(self.status_code, self.body.type)
        return {"type": "error", "error": {"type": kind, "message": message}}

    def response(self, path: str) -> JSONResponse:
        return JSONResponse(self.payload_for(path), self.status_code, self.headers)


def speaks_anthropic(path: str) -> bool:
    return "messages" in path.split("/")


def refused(error: EngineError, param: str | None = None) -> ApiError:
    """What the engine refused, for the client who asked. param: what holds the prompt."""
    match error:
        case QueueFullError():
            return ApiError(429, str(error), code="queue_full", retry_after=error.retry_after)
        case ContextLengthError():
            return ApiError(400, str(error), param=param, code="context_length_exceeded")
        case _:
            return ApiError(503, str(error), code="engine_unavailable")


def install(app: FastAPI) -> None:
    """Answer every failure of the app's routes with an error object."""

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        if not isinstance(error, ApiError):
            error = _routing_error(request, error)
        return error.response(request.url.path)

    @app.exception_handler(RequestValidationError)
    async def bad_input(request: Request, error: RequestValidationError) -> JSONResponse:
        return _invalid(error).response(request.url.path)

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> JSONResponse:
        failed = ApiError(500, "The engine's server failed; its log has the details.")
        return failed.response(request.url.path)


def _type(status: int) -> str:
    match status:
        case 401:
            return "authentication_error"
        case 403:
            return "permission_error"
        case 429:
            return "rate_limit_error"
        case _:
            return "server_error" if status >= 500 else "invalid_request_error"


def _routing_error(request: Request, error: HTTPException) -> ApiError:
    match error.status_code:
        case 404:
            return ApiError(404, f"There is no {request.url.path} here.", code="unknown_path")
        case 405:
            return ApiError(405, f"{request.url.path} does not take {request.method}.")
        case 400:
            # FastAPI's only one of its own: a body its parser gave up on, such as endless nesting.
            return ApiError(400, "The body is not JSON that can be read.", code="invalid_json")
        case status:
            return ApiError(status, str(error.detail))


def _invalid(error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", "it can't be parsed")
        return ApiError(400, f"The body is not valid JSON: {reason}.", code="invalid_json")
    if first["type"] == TOO_DEEP:
        return ApiError(400, f"{first['msg']}.", code="invalid_json")
    param = _path(first["loc"][1:])
    if not param:
        return ApiError(400, "Send a JSON object as the body, with Content-Type: application/json.")
    return ApiError(400, f"{param}: {in_words(first)}.", param=param, code="invalid_value")


def _path(location: Sequence[str | int]) -> str:
    """A place in the body the way people write it: `messages[0].content`."""
    named = (part for part in location if isinstance(part, int) or not ALTERNATIVE.fullmatch(part))
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in named)
    return "".join(parts).removeprefix(".")
