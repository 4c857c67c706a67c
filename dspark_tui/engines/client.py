"""The client of the one protocol: OpenAI's chat over HTTP, plus the engine's events if it has any.

The same code talks to our own worker over a Unix socket and to any OpenAI-compatible server by URL.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
from httpx_sse import EventSource
from msgspec import Struct

from dspark_tui.engines.address import Address
from dspark_tui.engines.answer_stream import updates
from dspark_tui.engines.chat_updates import Accepted, ChatUpdate, Message
from dspark_tui.engines.client_errors import (
    BusyError,
    ClientError,
    ConnectionLostError,
    NoEventsError,
    RefusedError,
    error_line,
)
from dspark_tui.engines.token_count import TokenCount
from dspark_tui.engines.turnstile import Turn, Turnstile
from engine import events
from engine.events import Event

if TYPE_CHECKING:
    from dspark_tui.engines.stopwatch import Stopwatch

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
RECONNECT_DELAYS = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each try to follow the events again; the last one repeats."""

SILENCE = 30.0
"""Seconds without a sign of life after which a stream of events is dead: ours beat every ten."""

PASSING = (429, 503)
"""Statuses that say: not now."""

FINAL = (400, 413, 422)
"""Statuses that are about the request itself, so that the same one gets the same answer."""

KEY_REFUSED = 401
KEY_HINT = "its key goes into --api-key, DSPARK_API_KEY or the engine's api_key_env"

UNKNOWN_PATH = (404, 405, 501)
"""Statuses that say: this server has no such thing."""


class Disconnected(Struct, frozen=True):
    """The stream of events broke off; `events` goes on trying."""

    why: str


class EngineClient:
    """One server. Close it with `aclose`.

    model: what requests name; None until `first_model` has asked. stopwatch: set it where the
    server publishes no events, and it makes those of all chats from here.
    """

    def __init__(
        self,
        address: Address,
        api_key: str | None = None,
        *,
        model: str | None = None,
        headers: Mapping[str, str] = {},
        on_accepted: Callable[[str], None] = lambda _: None,
    ) -> None:
        """on_accepted: called with the server's id of each request that it takes."""
        self.address = address
        self.model = model
        self.stopwatch: Stopwatch | None = None
        self._on_accepted = on_accepted
        self._counts_no_tokens = False
        self._turnstile = Turnstile()
        # Reading the certificates takes a twentieth of a second, and only TLS needs them.
        tls, socket = httpx.URL(address.url).scheme == "https", address.socket
        self._http = httpx.AsyncClient(
            base_url=address.url,
            transport=httpx.AsyncHTTPTransport(tls, uds=str(socket)) if socket else None,
            verify=tls,
            trust_env=not address.local,  # a proxy for the internet must not swallow loopback
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            limits=httpx.Limits(max_connections=None),
            headers={**({"Authorization": f"Bearer {api_key}"} if api_key else {}), **headers},
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def models(self) -> list[str]:
        """The ids of the models the server lists, at least one."""
        async with _network_errors(self.address):
            response = await self._http.get("/v1/models")
            await _refuse_errors(response)
            try:
                models = [str(model["id"]) for model in response.json()["data"]]
            except (ValueError, LookupError, TypeError):
                models = []
        if not models:
            raise ClientError(f"{self.address} lists no model at /v1/models")
        return models

    async def first_model(self) -> str:
        """The model requests name; the first one the server lists unless it was given."""
        if self.model is None:
            self.model = (await self.models())[0]
        return self.model

    def chat(
        self, messages: list[Message], sampling: dict[str, Any], source: str
    ) -> AsyncIterator[ChatUpdate]:
        """Ask for an answer and stream it; closing the iterator cancels the request.

        source: the label the live panel shows. Raises ClientError, before or after some text.
        """
        updates = self._chat(messages, sampling, source)
        if self.stopwatch is None:
            return updates
        return self.stopwatch.timed(updates, source, sampling.get("max_tokens", 0))

    async def _chat(
        self, messages: list[Message], sampling: dict[str, Any], source: str
    ) -> AsyncGenerator[ChatUpdate, None]:
        label = "".join(sign for sign in source if sign.isprintable()).strip()
        body = {
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            **sampling,
        }
        async with (
            Turn(self._turnstile) as turn,
            _network_errors(self.address),
            self._http.stream(
                "POST",
                "/v1/chat/completions",
                json={"model": await self.first_model(), **body},
                headers={b"X-Dspark-Source": label.encode()},
                extensions=self._ordering(turn),
            ) as response,
        ):
            turn.leave()
            await _refuse_errors(response)
            if request_id := response.headers.get("X-Request-Id"):
                self._on_accepted(request_id)
                yield Accepted(request_id)
            async for update in updates(response):
                yield update

    def _ordering(self, turn: Turn) -> dict[str, Any]:
        """Our own worker answers when it has queued the request, others perhaps much later."""
        return {} if self.address.socket else {"trace": turn.trace}

    async def cancel(self, request_id: str) -> None:
        """Ask the engine to end a request now. Never raises: a lost engine has ended it anyway.

        Other servers have no such request: they notice that the connection is closed.
        """
        if self.stopwatch is not None:
            return
        try:
            await self._http.post(f"/engine/cancel/{request_id}", timeout=CONNECT_TIMEOUT)
        except httpx.HTTPError as error:
            log.info("cancel %s: %s", request_id, error)

    async def pause(self, paused: bool) -> None:
        """Have the engine hold admissions, or go on with them. Raises ClientError."""
        async with _network_errors(self.address):
            await _refuse_errors(
                await self._http.post(f"/engine/{'pause' if paused else 'resume'}")
            )

    async def look_up(self, path: str) -> str | None:
        """What the server has at a path, None if nothing. Raises ClientError if it is gone."""
        async with _network_errors(self.address):
            response = await self._http.get(path, timeout=CONNECT_TIMEOUT)
            return response.text if response.status_code == httpx.codes.OK else None

    async def count_tokens(self, text: str) -> TokenCount | None:
        """How long the text is by the model's own tokenizer; None where the server can't say."""
        if self._counts_no_tokens:
            return None
        try:
            async with _network_errors(self.address):
                body = {"model": await self.first_model(), **_tokenize(text)}
                response = await self._http.post("/tokenize", json=body)
                if response.is_success:
                    return TokenCount.of(await asyncio.to_thread(response.json))
        except ClientError as error:
            log.info("tokens are not counted: %s", error)
            return None
        self._counts_no_tokens = response.status_code in UNKNOWN_PATH
        return None

    async def health(self) -> dict[str, Any]:
        """The /health document, whether the server is loading, ready or failed."""
        async with _network_errors(self.address):
            document = (await self._http.get("/health")).json()
            return document if isinstance(document, dict) else {}

    async def events(self) -> AsyncGenerator[Event | Disconnected, None]:
        """Every event, starting with a snapshot, for ever: a lost connection is opened again.

        A Disconnected is given once for each loss. Raises NoEventsError on other servers.
        """
        failures = 0
        while True:
            try:
                async for event in self._events_once():
                    failures = 0
                    yield event
                why = f"{self.address} is gone or restarting"
            except NoEventsError:
                raise
            except ClientError as error:
                why = str(error)
            if failures == 0:
                yield Disconnected(why)
            await asyncio.sleep(RECONNECT_DELAYS[min(failures, len(RECONNECT_DELAYS) - 1)])
            failures += 1

    async def _events_once(self) -> AsyncIterator[Event]:
        patience = httpx.Timeout(None, connect=CONNECT_TIMEOUT, read=SILENCE)
        async with (
            _network_errors(self.address),
            self._http.stream("GET", "/engine/events", timeout=patience) as response,
        ):
            if response.status_code in UNKNOWN_PATH:
                raise NoEventsError(f"{self.address} does not publish its batch")
            await _refuse_errors(response)
            async for frame in EventSource(response).aiter_sse():
                event = events.decode(json.loads(frame.data))
                if event is not None:
                    yield event


def _tokenize(text: str) -> dict[str, Any]:
    """What to send to `/tokenize`: vLLM reads `prompt`, llama.cpp `content`."""
    return {"prompt": text, "add_special_tokens": False, "content": text}


async def _refuse_errors(response: httpx.Response) -> None:
    """Raise the server's own sentence for an error status."""
    if response.is_success:
        return
    await response.aread()
    try:
        error = response.json().get("error")
    except (ValueError, AttributeError):
        error = None
    message = error_line(error) if error else f"the server answered {response.status_code}"
    if retry := response.headers.get("Retry-After"):
        message += f" (try again in {retry} s)"
    status = response.status_code
    if status == KEY_REFUSED:
        message += f" ({KEY_HINT})"
    kind = BusyError if status in PASSING else RefusedError if status in FINAL else ClientError
    raise kind(message)


@asynccontextmanager
async def _network_errors(address: Address) -> AsyncIterator[None]:
    """Turn httpx's and the JSON reader's exceptions into ours."""
    try:
        yield
    except httpx.ConnectError:
        raise ConnectionLostError(f"{address} does not answer") from None
    except httpx.HTTPError as error:
        log.info("connection to %s: %r", address, error)
        raise ConnectionLostError(f"{address} went away") from None
    except json.JSONDecodeError:
        raise ClientError(f"{address} sent something that is not JSON") from None
