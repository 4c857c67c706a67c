"""Who gets in, and with how much."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from engine.server.guard import AccessPolicy
from tests.e2e.conftest import ThreadedServer
from tests.e2e.responses import error_of

URL = "/v1/chat/completions"


@pytest.fixture
def http(server: ThreadedServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def policy() -> AccessPolicy:
    return AccessPolicy(api_key="sësame", max_body=2000)


@pytest.fixture
def key() -> dict[str, bytes]:
    return {"Authorization": "Bearer sësame".encode()}


def test_the_key_protects_everything_but_health(http: httpx.Client, key: dict[str, bytes]) -> None:
    for path in ("/v1/models", "/engine/state", "/engine/events", "/nothing", "/openapi.json"):
        assert error_of(http.get(path), 401)["type"] == "authentication_error"
        wrong = {"Authorization": "Bearer sesame"}
        error_of(http.get(path, headers=wrong), 401)
    assert http.get("/health").status_code == 200
    assert http.get("/v1/models", headers=key).status_code == 200


def test_a_body_over_the_limit(http: httpx.Client, key: dict[str, bytes]) -> None:
    error_of(http.post(URL, content=b" " * 2001, headers=key), 413)


def test_a_body_of_unknown_length_over_the_limit(http: httpx.Client, key: dict[str, bytes]) -> None:
    chunks = (b" " * 500 for _ in range(10))
    headers = {**key, "Content-Type": "application/json"}
    error_of(http.post(URL, content=chunks, headers=headers), 413)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::1", ""])
def test_a_foreign_host_name(http: httpx.Client, key: dict[str, bytes], host: str) -> None:
    error_of(http.get("/v1/models", headers={**key, "Host": host}), 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "[::1]:8642", "127.0.0.1"])
def test_a_loopback_host_name(http: httpx.Client, key: dict[str, bytes], host: str) -> None:
    assert http.get("/v1/models", headers={**key, "Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
def test_a_foreign_page(http: httpx.Client, key: dict[str, bytes], origin: str) -> None:
    error_of(http.get("/health", headers={**key, "Origin": origin}), 403)
