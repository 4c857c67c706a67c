"""An engine for what runs without a screen."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dspark_tui.address import Address
from dspark_tui.config import Settings
from dspark_tui.foreign import drawable
from dspark_tui.paths import Paths

if TYPE_CHECKING:
    from dspark_tui.client import EngineClient


class HeadlessError(Exception):
    """No engine answers here. `str()` is one line for the person."""


def say(line: str) -> None:
    """Tell the person something; standard output is for what they asked for."""
    print(drawable(line), file=sys.stderr, flush=True)


@asynccontextmanager
async def connected(
    settings: Settings, paths: Paths, record: Path | None = None
) -> AsyncIterator[EngineClient]:
    """A client of the settings' engine: the server they name, else a worker that ends with this.

    record: where the engine's events go. Raises HeadlessError if it can't begin.
    """
    from dspark_tui.client import ClientError
    from dspark_tui.commands.bench_worker import WorkerError, local_worker
    from dspark_tui.worker import engine_command
    from engine.proof.recording import RecordingError

    try:
        if settings.attach:
            async with _attached(settings, record) as client:
                yield client
            return
        command = engine_command(
            settings.model, settings.max_batch, settings.precision, paths.engine_log
        )
        async with (
            local_worker(command, lambda stage: say(f"engine: {stage}")) as socket,
            _attached(replace(settings, attach=str(socket)), record) as client,
        ):
            yield client
    except (ClientError, RecordingError, WorkerError) as error:
        raise HeadlessError(str(error)) from None


@asynccontextmanager
async def _attached(settings: Settings, record: Path | None) -> AsyncIterator[EngineClient]:
    from dspark_tui.client import EngineClient
    from dspark_tui.commands.bench_record import recorded

    address, key = Address.parse(settings.attach), os.environ.get("DSPARK_API_KEY")
    client = EngineClient(address, key)
    try:
        await client.first_model()
        async with recorded(address, key, str(record) if record else None):
            yield client
    finally:
        await client.aclose()
