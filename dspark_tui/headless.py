"""An engine for commands without a screen."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dspark_tui.address import Address
from dspark_tui.config import Settings
from dspark_tui.paths import Paths

if TYPE_CHECKING:
    from dspark_tui.client import EngineClient


def say(line: str) -> None:
    """Tell the person something; standard output is for what they asked for."""
    print(line, file=sys.stderr, flush=True)


@asynccontextmanager
async def connected(settings: Settings, paths: Paths) -> AsyncIterator[EngineClient]:
    """A client of the settings' engine: the server they name, else a worker that ends with this.

    Raises ClientError, WorkerError.
    """
    from dspark_tui.client import EngineClient
    from dspark_tui.commands.bench_worker import local_worker
    from dspark_tui.worker import engine_command

    if not settings.attach:
        command = engine_command(
            settings.model, settings.max_batch, settings.precision, paths.engine_log
        )
        async with local_worker(command, lambda stage: say(f"engine: {stage}")) as socket:
            attached = Settings(attach=str(socket))
            async with connected(attached, paths) as client:
                yield client
        return
    client = EngineClient(Address.parse(settings.attach), os.environ.get("DSPARK_API_KEY"))
    try:
        await client.first_model()
        yield client
    finally:
        await client.aclose()
