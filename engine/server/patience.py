"""An HTTP protocol whose patience ends: a client that never finishes its headers is dropped, and
what is no HTTP is refused as everything is.

A client that closes its sending half counts as gone: nothing but a failed write would tell it from
one that is, and a request that waits in the queue may have nothing to write for long.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.server.errors import ApiError

HEADER_SECONDS = 20.0
"""How long a request's headers may take. uvicorn itself would wait for ever."""


class PatientProtocol(H11Protocol):
    """uvicorn's h11 protocol, with a limit on the time between two complete heads."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what h11 can't read, be it a head or a body's framing, and hang up. Where the
        answer is out already, there is only the latter."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        body = ApiError(400, msg, code="invalid_http").response("").body
        headers = [("content-type", "application/json"), ("connection", "close")]
        refusal = h11.Response(
            status_code=400,
            reason=b"Bad Request",
            headers=[*headers, ("content-length", str(len(body)))],
        )
        for event in (refusal, h11.Data(data=bytes(body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Start the clock while a head is incomplete, stop it once there is a request."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _unwatch(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        self._limit = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
