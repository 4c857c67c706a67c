"""Who may talk to the server, and how much they may send."""

from __future__ import annotations

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
    max_body: bytes."""

    hosts: frozenset[str] | None = LOOPBACK_NAMES
    api_key: str | None = None
    max_body: int = 16 * 1024 * 1024

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

    def _check_host(self, headers: Headers) -> None:
        """A web page can reach a loopback server through a name of its own; Host gives it away."""
        if self.hosts is None:
            return
        host = headers.get("host", "")
        origin = headers.get("origin")
        if _hostname(f"//{host}") not in self.hosts:
            raise ApiError(403, f"This server does not answer for {host!r}.", code="host_denied")
        if origin is not None and _hostname(origin) not in self.hosts:
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
        """`receive` that gives up once the body, whose length nobody declared, is too large."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._policy.max_body:
                raise self._policy.too_large()
            return message

        return counted


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
