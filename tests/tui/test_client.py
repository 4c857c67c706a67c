"""The client against servers that behave, misbehave and go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from dspark_tui.engines.address import Address
from dspark_tui.engines.chat_updates import Accepted, Ended, Text
from dspark_tui.engines.client import Disconnected, EngineClient
from dspark_tui.engines.client_errors import ClientError, ConnectionLostError, NoEventsError
from engine.events import Finished, Snapshot, Step
from tests.tui.conftest import DEADLINE, fast
from tests.tui.scripted_engine import ScriptedServer

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def engine(sockets: Path) -> AsyncIterator[ScriptedServer]:
    with ScriptedServer(fast(), sockets / "engine.sock") as server:
        yield server


async def collect(client: EngineClient, **sampling: object) -> list[object]:
    return [update async for update in client.chat(HELLO, sampling, "1 test")]


def answering(frames: Iterable[str], status: int = 200, **headers: str) -> FastAPI:
    """A server whose chat answers with these raw lines."""
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, object]:
        return {"data": [{"id": "m"}]}

    @app.post("/v1/chat/completions")
    def chat() -> StreamingResponse:
        lines = (f"{frame}\n\n" for frame in frames)
        return StreamingResponse(lines, status, headers, media_type="text/event-stream")

    return app


@pytest.mark.parametrize(
    ("text", "url", "socket"),
    [
        ("http://localhost:8642", "http://localhost:8642", None),
        ("https://host/v1/", "https://host", None),
        ("http://host:1/api/v1", "http://host:1/api", None),
        ("unix:///run/e.sock", "http://engine", Path("/run/e.sock")),
        ("/run/e.sock", "http://engine", Path("/run/e.sock")),
    ],
)
def test_addresses(text: str, url: str, socket: Path | None) -> None:
    assert Address.parse(text) == Address(url, socket)


@pytest.mark.parametrize("text", ["", "localhost:8642", "ftp://host", "http://"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        Address.parse(text)


async def test_a_chat_is_accepted_streamed_and_ended(engine: ScriptedServer) -> None:
    client = EngineClient(Address.parse(engine.url))
    first, *texts, last = await collect(client, max_tokens=5)
    assert isinstance(first, Accepted)
    assert first.id.startswith("chatcmpl-")
    assert "".join(text.text for text in texts).startswith("## Why a circle")  # type: ignore[attr-defined]
    assert last == Ended("length", 5, prompt_tokens=2, cached_tokens=0)
    await client.aclose()


async def test_events_start_with_a_snapshot_and_follow_a_request(engine: ScriptedServer) -> None:
    client = EngineClient(Address.parse(engine.url))
    seen: list[object] = []

    async def follow() -> None:
        async for event in client.events():
            seen.append(event)
            if isinstance(event, Finished):
                return

    following = asyncio.create_task(follow())
    while not seen:
        await asyncio.sleep(0.01)
    await collect(client, max_tokens=5)
    await asyncio.wait_for(following, DEADLINE)
    assert isinstance(seen[0], Snapshot)
    assert sum(sum(e.tokens.values()) for e in seen if isinstance(e, Step)) == 5
    await client.aclose()


async def test_events_resume_with_a_snapshot_when_the_engine_comes_back(sockets: Path) -> None:
    socket = sockets / "engine.sock"
    client = EngineClient(Address.parse(str(socket)))
    events = client.events()
    with ScriptedServer(fast(), socket):
        while isinstance(await anext(events), Disconnected):
            pass
    assert isinstance(await anext(events), Disconnected)
    with ScriptedServer(fast(), socket):
        assert isinstance(await asyncio.wait_for(anext(events), DEADLINE), Snapshot)
        await events.aclose()  # type: ignore[attr-defined]
        await client.aclose()


async def test_cancel_ends_a_request_and_leaving_the_iterator_does_too(
    engine: ScriptedServer,
) -> None:
    client = EngineClient(Address.parse(engine.url))
    running = engine.engine.running
    chat = client.chat(HELLO, {"max_tokens": 100_000}, "x")
    accepted = await anext(chat)
    assert isinstance(accepted, Accepted)
    await anext(chat)
    await client.cancel(accepted.id)
    updates = [update async for update in chat]
    assert isinstance(updates[-1], Ended)
    assert updates[-1].reason == "cancelled"

    chat = client.chat(HELLO, {"max_tokens": 100_000}, "x")
    await anext(chat)
    await anext(chat)
    await chat.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(DEADLINE):
        while running:
            await asyncio.sleep(0.01)
    await client.aclose()


async def test_the_server_s_own_sentence_is_the_error(serve) -> None:  # type: ignore[no-untyped-def]
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, object]:
        return {"data": [{"id": "m"}]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> JSONResponse:
        error = {"message": "the queue\nis full", "code": "queue_full"}
        return JSONResponse({"error": error}, 429, {"Retry-After": "7"})

    async with serve(app) as url:
        client = EngineClient(Address.parse(url))
        with pytest.raises(ClientError, match=r"^the queue is full \(try again in 7 s\)$"):
            await collect(client)
        await client.aclose()


async def test_an_error_frame_in_the_stream_is_raised_after_the_text(serve) -> None:  # type: ignore[no-untyped-def]
    text = json.dumps({"choices": [{"delta": {"content": "so far"}, "finish_reason": None}]})
    error = json.dumps({"error": {"message": "out of memory"}})
    async with serve(answering([f"data: {text}", f"data: {error}"])) as url:
        client = EngineClient(Address.parse(url))
        chat = client.chat(HELLO, {}, "")
        assert await anext(chat) == Text("so far")
        with pytest.raises(ClientError, match="out of memory"):
            await anext(chat)
        await client.aclose()


async def test_an_engine_that_is_stopped_goes_away_and_fails_nothing(serve) -> None:  # type: ignore[no-untyped-def]
    error = {"message": "The engine is stopping.", "code": "engine_unavailable"}
    async with serve(answering([f"data: {json.dumps({'error': error})}"])) as url:
        client = EngineClient(Address.parse(url))
        with pytest.raises(ConnectionLostError, match="The engine is stopping"):
            await anext(client.chat(HELLO, {}, ""))
        await client.aclose()


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_that_comes_apart_is_put_before_the_answer(serve, name: str) -> None:  # type: ignore[no-untyped-def]
    deltas = [{name: "Two"}, {name: " and two"}, {"content": "4"}, {"content": "."}]
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    async with serve(answering(f"data: {json.dumps(chunk)}" for chunk in chunks)) as url:
        client = EngineClient(Address.parse(url))
        texts = [update.text for update in await collect(client) if isinstance(update, Text)]
        assert "".join(texts) == "<think>\nTwo and two\n</think>\n\n4."
        await client.aclose()


async def test_a_stream_without_an_end_is_a_lost_connection(serve) -> None:  # type: ignore[no-untyped-def]
    text = json.dumps({"choices": [{"delta": {"content": "half"}, "finish_reason": None}]})
    async with serve(answering([f"data: {text}"])) as url:
        client = EngineClient(Address.parse(url))
        with pytest.raises(ConnectionLostError, match="broke off"):
            await collect(client)
        await client.aclose()


async def test_nonsense_from_a_server_is_one_line(serve) -> None:  # type: ignore[no-untyped-def]
    async with serve(answering(["data: {nonsense"])) as url:
        client = EngineClient(Address.parse(url))
        with pytest.raises(ClientError, match="not JSON"):
            await collect(client)
        await client.aclose()


async def test_a_server_without_models_or_events_is_told_apart(serve) -> None:  # type: ignore[no-untyped-def]
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> PlainTextResponse:
        return PlainTextResponse("<html>")

    async with serve(app) as url:
        client = EngineClient(Address.parse(url))
        with pytest.raises(NoEventsError):
            await anext(client.events())
        with pytest.raises(ClientError, match="lists no model"):
            await client.first_model()
        await client.aclose()


async def test_nobody_listening_is_one_line_and_repeated_tries_report_it_once(
    sockets: Path,
) -> None:
    client = EngineClient(Address.parse(str(sockets / "none.sock")))
    with pytest.raises(ConnectionLostError, match="does not answer"):
        await client.health()
    events = client.events()
    assert isinstance(await anext(events), Disconnected)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(events), 0.5)
    await client.aclose()


async def test_a_server_that_ends_the_events_is_said_to_be_gone_or_restarting(serve) -> None:  # type: ignore[no-untyped-def]
    app = FastAPI()

    @app.get("/engine/events")
    def events() -> PlainTextResponse:
        return PlainTextResponse(": the last\n\n", media_type="text/event-stream")

    async with serve(app) as url:
        client = EngineClient(Address.parse(url))
        lost = await anext(client.events())
        assert lost == Disconnected(f"{url} is gone or restarting")
        await client.aclose()


async def test_health_tells_loading_from_ready(sockets: Path) -> None:
    with ScriptedServer(fast(loading=True), sockets / "engine.sock") as server:
        client = EngineClient(Address.parse(server.url))
        assert (await client.health())["status"] == "loading"
        await client.aclose()


async def test_the_api_key_and_the_label_travel_as_headers(serve) -> None:  # type: ignore[no-untyped-def]
    seen = {}
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, object]:
        return {"data": [{"id": "m"}]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> JSONResponse:
        seen.update(request.headers)
        return JSONResponse({"error": {"message": "no"}}, 400)

    async with serve(app) as url:
        client = EngineClient(Address.parse(url), api_key="secret")
        with pytest.raises(ClientError):
            _ = [update async for update in client.chat(HELLO, {}, "2 日本 \ncafé")]
        await client.aclose()
    assert seen["authorization"] == "Bearer secret"
    assert seen["x-dspark-source"].encode("latin-1").decode() == "2 日本 café"
