"""An engine for what runs without a screen."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dspark_tui.config import Settings
from dspark_tui.engines.address import Address, Server
from dspark_tui.paths import Paths
from dspark_tui.text.foreign import drawable

if TYPE_CHECKING:
    from dspark_tui.engines.client import EngineClient


class HeadlessError(Exception):
    """No engine answers here. `str()` is one line for the person."""


def say(line: str) -> None:
    """Tell the person something; standard output is for what they asked for."""
    print(drawable(line), file=sys.stderr, flush=True)


@contextmanager
def stopped_by_term() -> Iterator[None]:
    """SIGTERM ends what runs in the block as Ctrl+C does: what there is, is kept and told."""

    def stop(*_: object) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@asynccontextmanager
async def connected(
    settings: Settings, paths: Paths, record: Path | None = None, engine: str = ""
) -> AsyncIterator[EngineClient]:
    """A client of an engine of the settings: a server, or a worker that ends with this.

    record: where its events go. engine: its name. Raises HeadlessError if it can't begin.
    """
    from dspark_tui.commands.bench_worker import WorkerError, local_worker
    from dspark_tui.engines.client_errors import ClientError
    from dspark_tui.engines.engines import NoEngineError, place_of
    from engine.proof.recording import RecordingError, check_path

    try:
        if record:
            check_path(record)  # before a model is loaded for it
        async with AsyncExitStack() as stack:
            place = place_of(engine, settings, paths)
            try:
                if not isinstance(place, Server):
                    worker = local_worker(place, lambda stage: say(f"engine: {stage}"))
                    place = Server(Address.of_socket(await stack.enter_async_context(worker)))
                client = await stack.enter_async_context(_attached(place, record))
            except asyncio.CancelledError:
                say("dspark-tui: stopped before the engine was ready")
                raise
            yield client
    except (ClientError, NoEngineError, RecordingError, WorkerError) as error:
        raise HeadlessError(str(error)) from None


@asynccontextmanager
async def all_connected(
    settings: Settings, paths: Paths, engines: Iterable[str], record: Path | None = None
) -> AsyncIterator[dict[str, EngineClient]]:
    """A client of each of these engines, by name. record: where the first one's events go."""
    clients: dict[str, EngineClient] = {}
    async with AsyncExitStack() as stack:
        for name in dict.fromkeys(engines):
            engine = connected(settings, paths, None if clients else record, name)
            clients[name] = await stack.enter_async_context(engine)
        yield clients


@asynccontextmanager
async def _attached(server: Server, record: Path | None) -> AsyncIterator[EngineClient]:
    from dspark_tui.commands.bench_record import recorded
    from dspark_tui.engines.client import EngineClient

    address, key = server.address, server.api_key
    client = EngineClient(address, key, model=server.model, headers=server.headers)
    try:
        await client.first_model()
        async with recorded(address, key, str(record) if record else None):
            yield client
    finally:
        await client.aclose()
