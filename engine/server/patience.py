"""An HTTP protocol with patience for those who listen, not for those who never finish talking."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.server.errors import ApiError
from engine.server.sse import FILLER

HEADER_SECONDS = 20.0
"""How long a request's headers may take. uvicorn itself would wait for ever."""

PROBE_SECONDS = 0.25
"""Between two writes that tell whether a client whose sending half is closed still reads."""

PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"


class PatientProtocol(H11Protocol):
    """uvicorn's h11 protocol, with a limit on the time between two complete heads, with refusals
    like all others, and with answers for clients that close their sending half."""

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

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client will send no more. It may wait for its answer or be gone: only a write that
        fails can tell, so there is one now and then."""
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.response_complete:
            return False
        cycle.keep_alive = False
        self._probe()
        return True

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

    def _probe(self) -> None:
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        if not self.flow.write_paused:
            self.transport.write(self._sign_of_life())
        self.loop.call_later(PROBE_SECONDS, self._probe)

    def _sign_of_life(self) -> bytes:
        """What may be written just now without being a part of the answer, if anything."""
        scope, state = self.cycle.scope, self.conn.our_state
        if state is h11.SEND_RESPONSE and scope["http_version"] == "1.1":
            return PROCESSING
        if state is h11.SEND_BODY and (filler := scope["state"].get(FILLER)):
            return self.conn.send(h11.Data(data=filler)) or b""
        return b""

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
