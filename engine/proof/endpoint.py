"""An OpenAI-compatible server, timed from outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import EventSource, SSEError

from engine.proof.endings import end_tokens
from engine.proof.reply import (
    MALFORMED,
    RefusedError,
    one_line,
    refuse_errors,
    take_chunk,
    take_whole,
)
from engine.proof.traffic import Ask, Record

CONNECT_WITHIN = 10.0
WARM_UP = Ask("Write one sentence about the sea.", 8, source="bench warm-up")
ONE_WORD = Ask("Answer with the one word: yes", 12, source="bench warm-up")
"""Ends early wherever nothing keeps an answer from ending."""
FORBIDDEN = -100
"""Bias of a token that must not come."""
TRIES = 3
"""Of the warm-up on a server that says it is busy or broken just now."""
TRY_AGAIN_AFTER = 1.0
SENT = "http11.send_request_body.complete"


class UnusableServerError(Exception):
    """No request can be answered here. `str()` is one line for the person."""


FAILURES = (TimeoutError, httpx.HTTPError, RefusedError, *MALFORMED)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Options not every server takes. fixed_length: those that keep an answer from ending early.
    ends: the tokens that `logit_bias` forbids."""

    fixed_length: tuple[str, ...]
    usage: bool
    ends: tuple[int, ...] = ()

    def options(self, ask: Ask) -> dict[str, Any]:
        values: dict[str, Any] = {
            "ignore_eos": True,
            "min_tokens": ask.max_tokens,
            "logit_bias": {str(token): FORBIDDEN for token in self.ends},
        }
        options = {name: values[name] for name in self.fixed_length}
        if self.usage and ask.stream:
            options["stream_options"] = {"include_usage": True}
        return options


DIALECTS = (
    Dialect(("ignore_eos", "min_tokens"), True),
    Dialect(("ignore_eos",), True),
    Dialect(("min_tokens",), True),
    Dialect((), True),
    Dialect((), False),
)
"""From the one that measures best on; the first the server doesn't refuse is spoken."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is. url: without /v1. model: None for the first it lists. timeout: seconds a
    request may take as a whole. proxies: whether the environment's may be used."""

    url: str
    socket: Path | None = None
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0
    proxies: bool = True


@asynccontextmanager
async def reached(target: Target) -> AsyncIterator[Endpoint]:
    """The server, warmed up, its connections closed with the block. Raises UnusableServerError."""
    try:
        endpoint = Endpoint(target)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise UnusableServerError(f"{target.url}: {one_line(error)}") from None
    try:
        await endpoint.prepare()
        yield endpoint
    finally:
        await endpoint.aclose()


class Endpoint:
    """One server, as `reached` gives it."""

    def __init__(self, target: Target) -> None:
        self.model = target.model or ""
        self.dialect = DIALECTS[0]
        self._target = target
        # Reading the certificates takes a twentieth of a second, and only TLS needs them.
        tls, socket = httpx.URL(target.url).scheme == "https", target.socket
        self._http = httpx.AsyncClient(
            base_url=target.url,
            verify=tls,
            headers={"Accept-Encoding": "identity"} | dict(target.headers),
            transport=httpx.AsyncHTTPTransport(tls, uds=str(socket)) if socket else None,
            trust_env=target.proxies,
            timeout=httpx.Timeout(None, connect=CONNECT_WITHIN),
            limits=httpx.Limits(max_connections=None),
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def prepare(self) -> None:
        """Find the model, warm it up, learn which options are taken. Raises UnusableServerError."""
        try:
            self.model = self.model or await self._first_model()
            await self._warm_up()
            await self._forbid_ends()
        except FAILURES as error:
            raise UnusableServerError(f"{self._place}: {self._explained(error)}") from None

    async def ask(self, record: Record) -> None:
        """Ask and fill the record. Never raises; a failure is the record's `error`."""
        try:
            await self._exchange(record)
        except FAILURES as error:
            if record.end is None:
                record.error = self._explained(error)

    async def document(self, ask: Ask, options: dict[str, Any]) -> Any:
        """A whole answer as the server sent it. Raises UnusableServerError.

        options: more of the request's body. ask: its stream must be False.
        """
        body = self._body(ask) | options
        try:
            async with asyncio.timeout(self._target.timeout):
                response = await self._http.post(
                    "/v1/chat/completions", json=body, headers=_labelled(ask)
                )
            refuse_errors(response)
            return response.json()
        except FAILURES as error:
            raise UnusableServerError(self._explained(error)) from None

    async def _first_model(self) -> str:
        async with asyncio.timeout(self._target.timeout):
            response = await self._http.get("/v1/models")
        refuse_errors(response)
        try:
            return str(response.json()["data"][0]["id"])
        except MALFORMED:
            raise ValueError("lists no model at /v1/models; is it OpenAI-compatible?") from None

    async def _warm_up(self) -> None:
        for dialect in DIALECTS:
            self.dialect = dialect
            try:
                await self._patiently(WARM_UP)
            except RefusedError as error:
                if error.status not in (400, 422) or dialect is DIALECTS[-1]:
                    raise
            else:
                return

    async def _forbid_ends(self) -> None:
        """Where the options taken did nothing, forbid the tokens that end an answer.

        A server may take an option and not act on it, so an answer is looked at.
        """
        if not await self._ends_early():
            return
        plain, ends = self.dialect, await end_tokens(self._http, self.model)
        if not ends:
            return
        taken = (*plain.fixed_length, "logit_bias")
        self.dialect = replace(plain, fixed_length=taken, ends=ends)
        try:
            await self._patiently(ONE_WORD)
        except RefusedError:
            self.dialect = plain

    async def _ends_early(self) -> bool:
        return (await self._patiently(ONE_WORD)).tokens < ONE_WORD.max_tokens

    async def _patiently(self, ask: Ask) -> Record:
        for attempt in range(TRIES):
            record = Record(ask)
            try:
                await self._exchange(record)
                break
            except RefusedError as error:
                passing = error.status == 429 or error.status >= 500
                if not passing or attempt == TRIES - 1:
                    raise
                await asyncio.sleep(TRY_AGAIN_AFTER)
        return record

    async def _exchange(self, record: Record) -> None:
        loop, ask = asyncio.get_running_loop(), record.ask
        record.submit = loop.time()

        async def note_sending(event: str, _: Any) -> None:
            if event == SENT:  # connecting and queueing on this side is not the server's time
                record.submit = loop.time()

        async with (
            asyncio.timeout(self._target.timeout),
            self._http.stream(
                "POST",
                "/v1/chat/completions",
                json=self._body(ask),
                headers=_labelled(ask),
                extensions={"trace": note_sending},
            ) as response,
        ):
            if not response.is_success:
                await response.aread()
                refuse_errors(response)
            if response.headers.get("Content-Type", "").startswith("application/json"):
                document = json.loads(await response.aread())
                take_whole(record, document, loop.time())
            else:
                await self._read_stream(record, response)
        if not record.arrivals:
            raise ValueError("answered without any text")

    def _body(self, ask: Ask) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": ask.prompt}],
            "max_tokens": ask.max_tokens,
            "temperature": ask.temperature,
            "stream": ask.stream,
            **({} if ask.seed is None else {"seed": ask.seed}),
            **self.dialect.options(ask),
        }

    async def _read_stream(self, record: Record, response: httpx.Response) -> None:
        clock = asyncio.get_running_loop().time
        complete = False
        async for frame in EventSource(response).aiter_sse():
            if frame.data == "[DONE]":
                complete = True
                break
            take_chunk(record, json.loads(frame.data), clock())
        if record.end is None and complete and record.arrivals:
            record.end = record.arrivals[-1]
        if record.end is None:
            raise ValueError("closed the connection before the answer's end")

    @property
    def _place(self) -> str:
        return "the engine" if self._target.socket else self._target.url

    def _explained(self, error: Exception) -> str:
        """One line for whatever went wrong on the wire."""
        match error:
            case TimeoutError():
                return f"no answer was complete within {self._target.timeout:.0f} s"
            case SSEError():
                return "sent neither JSON nor a stream of events; is it OpenAI-compatible?"
            case RefusedError(status=200):
                return f"broke off with an error: {error}"
            case RefusedError(status=401 | 403):
                return f"wants another key ({error.status}): {error}"
            case RefusedError():
                return f"answered {error.status}: {error}"
            case httpx.ConnectError() if "SSL" in str(error) or "TLS" in str(error):
                return f"TLS: {one_line(error)}"
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return "does not answer; is a server running there?"
            case httpx.HTTPError():
                return f"closed the connection ({type(error).__name__})"
            case json.JSONDecodeError() | UnicodeDecodeError():
                return "sent something that is not JSON"
            case ValueError():
                return one_line(error)
            case _:
                return "sent JSON of another shape than OpenAI's"


def _labelled(ask: Ask) -> dict[str, str]:
    return {"X-Dspark-Source": ask.source}
