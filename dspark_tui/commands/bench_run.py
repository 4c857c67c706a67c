"""A bench from its order to its report: the server, the examination, and Ctrl+C at any moment."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dspark_tui import __version__
from dspark_tui.commands.bench_order import BenchError, Order
from dspark_tui.commands.bench_progress import Progress
from dspark_tui.commands.bench_record import recorded
from dspark_tui.commands.bench_worker import WorkerError, local_worker
from dspark_tui.engines.worker import engine_command
from dspark_tui.engines.worker_settings import WorkerSettings
from dspark_tui.paths import Paths
from engine.proof.endpoint import Endpoint, UnusableServerError, reached
from engine.proof.notes import Circumstances
from engine.proof.probes import Examination
from engine.proof.recording import RecordingError
from engine.proof.report import Report


async def examined(order: Order, command: str, progress: Progress) -> Report:
    """Carry the order out. command: the line that was typed. Raises BenchError."""
    async with endpoint(order, progress) as server:
        examination = Examination(server, order.plan, progress.round)
        interrupted = await _until_stopped(examination)
        circumstances = Circumstances(
            command=command,
            tool=f"dspark-tui {__version__}",
            machine=machine(),
            server=order.place,
            model=server.model,
            fixed_length=server.dialect.fixed_length,
            interrupted=interrupted,
        )
        return Report.of(examination.rounds, order.plan, circumstances)


def machine() -> str:
    """Where the bench itself runs."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"


async def _until_stopped(examination: Examination) -> bool:
    """Run it; Ctrl+C ends it early, with what there is. Whether that happened."""
    gc.collect()
    gc.freeze()  # walking all that is imported takes longer than a token
    try:
        await examination.run()
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()  # what follows is not to be cut short as well
        return True
    return False


@asynccontextmanager
async def endpoint(order: Order, progress: Progress) -> AsyncIterator[Endpoint]:
    """The server to ask, ours if none was named, warmed up."""
    if order.address is None:
        async with _worker(order, progress) as ours, endpoint(ours, progress) as server:
            yield server
        return
    progress.stage(f"warming up {order.place}")
    try:
        async with (
            reached(order.target) as server,
            recorded(order.address, order.api_key, order.record),
        ):
            yield server
    except (UnusableServerError, RecordingError) as error:
        raise BenchError(str(error)) from None


@asynccontextmanager
async def _worker(order: Order, progress: Progress) -> AsyncIterator[Order]:
    """The order, addressed to a worker that was started for it."""
    log = Paths.of_user().engine_log
    settings = WorkerSettings(order.model, order.max_batch, order.precision)
    try:
        async with local_worker(engine_command(settings, log), progress.stage) as socket:
            yield order.at(socket)
    except WorkerError as error:
        raise BenchError(str(error)) from None
