"""A worker of our own for a command that was given no server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dspark_tui.engines.address import Address
from dspark_tui.engines.client import EngineClient
from dspark_tui.engines.client_errors import ClientError
from dspark_tui.engines.worker import Command, Worker, WorkerPhase, WorkerState
from engine.events import EngineStatus

POLL = 0.1


class WorkerError(Exception):
    """The worker can't serve. `str()` is one line for the person."""


@asynccontextmanager
async def local_worker(command: Command, on_stage: Callable[[str], None]) -> AsyncIterator[Path]:
    """The socket of a worker that has loaded its model; it ends with the block.

    on_stage: told each stage of the start once. Raises WorkerError.
    """
    worker = Worker(command, lambda _: None)
    worker.start()
    try:
        if worker.socket is None:
            raise WorkerError(worker.state.reason)
        client = EngineClient(Address.of_socket(worker.socket))
        try:
            await _loaded(client, lambda: worker.state, on_stage)
        finally:
            await client.aclose()
        yield worker.socket
    finally:
        await worker.close()


async def _loaded(
    client: EngineClient, state: Callable[[], WorkerState], on_stage: Callable[[str], None]
) -> None:
    told = ""
    while True:
        if state().phase is WorkerPhase.FAILED:
            raise WorkerError(state().reason)
        health = await _health(client)
        match health.get("status"):
            case EngineStatus.OK:
                return
            case EngineStatus.FAILED:
                raise WorkerError(str(health.get("error")))
        stage = (health.get("progress") or {}).get("stage", "")
        if stage and stage != told:
            told = stage
            on_stage(stage)
        await asyncio.sleep(POLL)


async def _health(client: EngineClient) -> dict[str, Any]:
    """Empty while it doesn't listen yet."""
    try:
        return await client.health()
    except ClientError:
        return {}
