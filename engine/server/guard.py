"""Who may talk to the server, and how much they may send."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.errors import ApiError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """hosts: names a request may be addressed to, None for any. api_key: None for no key.
    origins: whose pages may read answers besides. max_body: bytes. body_seconds: how long a body
    may take to arrive."""

    hosts: frozenset[str] | None = LOOPBACK_NAMES
    api_key: str | None = None
    origins: frozenset[str] = frozenset()
    max_body: int = 16 * 1024 * 1024
    body_seconds: float = 30.0

    def check(self, path: str, headers: Headers) -> None:
        """Raises ApiError for a request that must not reach the routes."""
        self._check_host(headers)
        if path != "/health":
            self._check_key(headers)
        if int(headers.get("content-length", 0)) > self.max_body:
            raise self.too_large()

    def too_large(self) -> ApiError:
        return ApiError(
            413, f"The request is larger than {self.max_body} bytes.", code="request_too_large"
        )

    def too_slow(self) -> ApiError:
        return ApiError(
            408, f"The body took more than {self.body_seconds:g} s.", code="request_timeout"
        )

    def _check_host(self, headers: Headers) -> None:
        """A web page can reach a loopback server through a name of its own; Host gives it away."""
        if self.hosts is None:
            return
        host = headers.get("host", "")
        origin = headers.get("origin")
        if _hostname(f"//{host}") not in self.hosts:
            raise ApiError(403, f"This server does not answer for {host!r}.", code="host_denied")
        if origin is None or origin.lower() in self.origins:
            return
        if _hostname(origin) not in self.hosts:
            raise ApiError(403, f"Pages of {origin!r} may not use this server.", code="host_denied")

    def _check_key(self, headers: Headers) -> None:
        if self.api_key is None:
            return
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        given = given or headers.get("x-api-key", "")
        if not secrets.compare_digest(given.encode("latin-1"), self.api_key.encode()):
            raise ApiError(
                401,
                "Send the server's key as Authorization: Bearer KEY, or as x-api-key.",
                code="invalid_api_key",
            )


class Guard:
    """ASGI middleware: applies the policy and forgives a trailing slash."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].rstrip("/") or "/"
        try:
            self._policy.check(path, Headers(scope=scope))
        except ApiError as error:
            await error.response(path)(scope, receive, send)
            return
        await self._app({**scope, "path": path}, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        """`receive` that gives up once the body, whose length nobody declared, is too large, or
        takes too long to come."""
        taken, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self._policy.body_seconds

        async def counted() -> Message:
            nonlocal taken, whole
            try:
                async with asyncio.timeout_at(None if whole else deadline):
                    message = await receive()
            except TimeoutError:
                raise self._policy.too_slow() from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if taken > self._policy.max_body:
                raise self._policy.too_large()
            return message

        return counted


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
