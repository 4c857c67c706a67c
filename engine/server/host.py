"""Run the HTTP server around an engine, from the bound socket to a clean exit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import socket

import uvicorn
from fastapi import FastAPI

from engine.engine import Engine
from engine.events import EngineStatus, Progress, Snapshot, Status
from engine.exit_codes import Exit
from engine.server import last_run
from engine.server.doorbell import Doorbell
from engine.server.patience import PatientProtocol
from engine.server.report import Reporter

log = logging.getLogger(__name__)

GRACE_SECONDS = 1
"""How long open connections may take to read their last frames."""

CLOSE_SECONDS = 1.5
"""How long the engine may take to end its step and drop the model."""

LAST_LOOK_SECONDS = 1.0
"""How long an attached workbench gets to see why the model could not load."""

STANDARD_INPUT = 0


class Host(uvicorn.Server):
    """A uvicorn server that owns the engine: both start and end together. Never ticks when idle."""

    def __init__(
        self,
        app: FastAPI,
        engine: Engine,
        reporter: Reporter,
        url: str,
        parent_pipe: bool,
        log_path: Path | None,
        strict: bool = False,
    ) -> None:
        """strict: end when anything that was asked for is refused."""
        super().__init__(
            uvicorn.Config(
                app,
                http=PatientProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._engine = engine
        self._reporter = reporter
        self._url = url
        self._parent_pipe = parent_pipe
        self._log_path = log_path
        self._strict = strict
        self._closing = threading.Thread(target=engine.close, name="engine-close", daemon=True)
        self._exit_code = Exit.DONE
        self._stop = asyncio.Event()

    def serve_until_stopped(self, bound: socket) -> int:
        """The process's exit code: 0 after a signal or the parent's end, Exit.FAILED or Exit.NO.

        Exit.FAILED also where the engine had failed or was stuck by then: a supervisor can tell.
        """
        asyncio.run(self.serve([bound]))
        self._closing.join(CLOSE_SECONDS)
        if self._closing.is_alive():
            log.warning("the engine did not stop in time; leaving without it")
            logging.shutdown()
            os._exit(self._exit_code)
        return self._exit_code

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The first signal stops the server, the second one the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if not (ignored and number is signal.SIGHUP):  # started with nohup
                loop.add_signal_handler(number, self._on_signal)
        yield

    async def main_loop(self) -> None:
        if self.should_exit:
            return
        self._engine.start()
        startup = asyncio.create_task(self._watch_startup())
        if self._parent_pipe:
            self._watch_parent()
        await self._stop.wait()
        startup.cancel()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._keep_state()
        if self._engine.snapshot().status in (EngineStatus.FAILED, EngineStatus.STUCK):
            self._exit_code = Exit.FAILED
        self._closing.start()
        await super().shutdown(sockets)

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    def _keep_state(self) -> None:
        state = self._engine.snapshot()
        if self._log_path is not None and state.status is EngineStatus.OK:
            last_run.save(state, self._log_path.parent)

    def _on_signal(self) -> None:
        if self.should_exit:
            os._exit(Exit.FAILED)
        self.stop()

    def _watch_parent(self) -> None:
        loop = asyncio.get_running_loop()

        def wait_for_end() -> None:
            with contextlib.suppress(OSError):
                while os.read(STANDARD_INPUT, 4096):
                    pass
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.stop)

        threading.Thread(target=wait_for_end, name="parent-watch", daemon=True).start()

    async def _watch_startup(self) -> None:
        """Report how loading goes; a model that can't load ends the process."""
        bell = Doorbell()
        subscription = self._engine.subscribe(bell.ring)
        try:
            while True:
                for event in subscription.drain():
                    match event:
                        case Status() | Snapshot() if event.status is EngineStatus.OK:
                            await self._loaded()
                            return
                        case Status() | Snapshot() if event.status is EngineStatus.FAILED:
                            error = event.error or "the model could not be loaded"
                            await self._give_up(error, Exit.FAILED)
                            return
                        case Status(progress=Progress() as progress):
                            self._reporter.progress(progress)
                await bell.wait()
        finally:
            subscription.close()

    async def _loaded(self) -> None:
        state = self._engine.snapshot()
        self._keep_state()
        refused = "; ".join(str(c) for c in state.capabilities if c.refused)
        if refused and self._strict:
            await self._give_up(f"refused, and --strict allows no refusal: {refused}", Exit.NO)
        else:
            self._reporter.ready(self._url, state)

    async def _give_up(self, error: str, exit_code: Exit) -> None:
        self._exit_code = exit_code
        self._reporter.failed(error, self._log_path if exit_code == Exit.FAILED else None)
        if self._parent_pipe:
            await asyncio.sleep(LAST_LOOK_SECONDS)
        self.stop()
