"""A server to talk to, over an engine that answers what a test tells it to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from functools import cache

import httpx
import pytest
import uvicorn

from engine.server.app import create_app
from engine.server.guard import AccessPolicy
from engine.server.patience import PatientProtocol
from tests.e2e.fake_engine import FakeEngine
from tests.e2e.waiting import DEADLINE, wait_until


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once() -> Iterator[None]:
    """Not for each of many hundred requests: httpx takes a twentieth of a second for it."""
    with pytest.MonkeyPatch.context() as patch:
        once = cache(httpx.create_ssl_context)
        patch.setattr(httpx._transports.default, "create_ssl_context", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def nobody_gives_up_early() -> Iterator[None]:
    """httpx would after 5 seconds, where it is told nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        for stage in ("connect", "read", "write", "pool"):
            patch.setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, stage, DEADLINE)
        yield


class ThreadedServer(uvicorn.Server):
    """The real application on a loopback port, in a thread."""

    def __init__(self, engine: FakeEngine, policy: AccessPolicy) -> None:
        self.app = create_app(engine, "fake-1", policy)  # type: ignore[arg-type]
        super().__init__(
            uvicorn.Config(
                self.app, http=PatientProtocol, lifespan="off", log_config=None, ws="none"
            )
        )
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> ThreadedServer:
        self._thread.start()
        wait_until(lambda: self.started, "the server listens")
        return self

    def __exit__(self, *_: object) -> None:
        self.should_exit = self.force_exit = True
        self._thread.join()


@pytest.fixture
def engine() -> FakeEngine:
    fake = FakeEngine()
    fake.load()
    return fake


@pytest.fixture(scope="module")
def policy() -> AccessPolicy:
    return AccessPolicy()


@pytest.fixture(scope="module")
def listening(policy: AccessPolicy) -> Iterator[ThreadedServer]:
    with ThreadedServer(FakeEngine(), policy) as running:
        yield running


@pytest.fixture
def server(listening: ThreadedServer, engine: FakeEngine) -> Iterator[ThreadedServer]:
    """The module's server, with an engine of the test's own behind it."""
    listening.app.state.engine = engine
    yield listening
    engine.close()
