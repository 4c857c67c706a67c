"""Pages of other origins, clients that never finish, and what the log may say."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from engine.server import patience
from engine.server.guard import AccessPolicy
from tests.e2e.conftest import ThreadedServer
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.responses import error_of
from tests.e2e.waiting import DEADLINE

PAGE = "http://pages.example:3000"
URL = "/v1/chat/completions"
CHAT = {"messages": [{"role": "user", "content": "a secret"}]}


@pytest.fixture(scope="module")
def policy() -> AccessPolicy:
    return AccessPolicy(api_key="sesame", origins=frozenset({PAGE}))


@pytest.fixture
def http(server: ThreadedServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": "Bearer sesame"}
    with httpx.Client(base_url=server.url, headers=headers) as client:
        yield client


def preflight(http: httpx.Client, origin: str) -> httpx.Response:
    asks = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    return httpx.options(f"{http.base_url}{URL}", headers=asks)


def test_a_listed_page_may_ask_and_read(http: httpx.Client) -> None:
    asked = preflight(http, PAGE)
    assert asked.is_success
    assert asked.headers["access-control-allow-origin"] == PAGE
    assert "authorization" in asked.headers["access-control-allow-headers"].lower()
    answer = http.post(URL, json=CHAT, headers={"Origin": PAGE})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    refused = httpx.post(f"{http.base_url}{URL}", json=CHAT, headers={"Origin": PAGE})
    assert error_of(refused, 401)
    assert refused.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("origin", ["http://pages.example", "http://evil.example", "null"])
def test_other_pages_may_not(http: httpx.Client, origin: str) -> None:
    assert "access-control-allow-origin" not in preflight(http, origin).headers
    error_of(http.post(URL, json=CHAT, headers={"Origin": origin}), 403)


def test_a_page_of_this_machine_is_told_nothing_it_may_read(http: httpx.Client) -> None:
    answer = http.get("/v1/models", headers={"Origin": "http://localhost:5000"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_both_kinds_of_key_are_understood(server: ThreadedServer) -> None:
    def models(**headers: str) -> int:
        return httpx.get(f"{server.url}/v1/models", headers=headers).status_code

    assert models(**{"X-Api-Key": "sesame"}) == 200
    assert models(**{"X-Api-Key": "other"}) == 401
    assert models() == 401


def answer_to(address: tuple[str, int], sent: bytes) -> bytes:
    """All that comes back before the server closes the connection."""
    with socket.create_connection(address, timeout=DEADLINE) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def address_of(server: ThreadedServer) -> tuple[str, int]:
    url = httpx.URL(server.url)
    return url.host, url.port or 0


def test_a_body_that_never_ends_is_not_waited_for() -> None:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{"
    )
    with ThreadedServer(FakeEngine(), AccessPolicy(body_seconds=0.3)) as server:
        answer = answer_to(address_of(server), head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"request_timeout" in answer


def keyless() -> ThreadedServer:
    return ThreadedServer(FakeEngine(), AccessPolicy())


@pytest.mark.parametrize(
    "sent", [b"", b"GET /heal", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"]
)
def test_a_head_that_never_ends_is_not_waited_for(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEADER_SECONDS", 0.3)
    with keyless() as server:
        assert answer_to(address_of(server), sent) == b""


@pytest.mark.parametrize(
    "length",
    [
        b"Content-Length: many",
        b"Content-Length: -5",
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: " + b"9" * 30,
        b"Transfer-Encoding: chunked\r\n\r\nzz",
    ],
)
def test_a_length_that_is_none_is_refused(length: bytes) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    with keyless() as server:
        answer = answer_to(address_of(server), head + length + b"\r\n\r\n{}")
    head, body = answer.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"content-type: application/json" in head
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_what_is_no_http_behind_a_refusal_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        keyless() as patient,
        socket.create_connection(address_of(patient), timeout=DEADLINE) as connection,
    ):
        connection.sendall(head)
        refused = b""
        while b"host_denied" not in refused:
            refused += connection.recv(4096)
        connection.sendall(b"zz\r\n")
        while connection.recv(4096):
            pass
    assert "Traceback" not in caplog.text


def test_a_body_may_come_in_chunks_of_unknown_length(http: httpx.Client) -> None:
    body = json.dumps(CHAT).encode()
    pieces = (body[at : at + 7] for at in range(0, len(body), 7))
    headers = {"Content-Type": "application/json"}
    assert http.post(URL, content=pieces, headers=headers).status_code == 200


def test_a_connection_serves_many_requests_all_the_same() -> None:
    with keyless() as server, httpx.Client(base_url=server.url) as http:
        assert [http.get("/engine/state").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("prompts", [False, True])
def test_the_log_says_who_asked_and_what_only_if_told_to(
    server: ThreadedServer, http: httpx.Client, caplog: pytest.LogCaptureFixture, prompts: bool
) -> None:
    server.app.state.log_prompts = prompts
    with caplog.at_level(logging.INFO, "engine"):
        http.post(URL, json=CHAT, headers={"X-Dspark-Source": "pane 2"})
    assert "'pane 2', 2 prompt tokens" in caplog.text
    assert ("the prompt is" in caplog.text) is prompts
