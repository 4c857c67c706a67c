"""The local engine worker: start it, watch it, restart it when it dies, take it along at exit."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from dspark_tui.engines.worker_settings import WorkerSettings
from dspark_tui.private_folder import PrivateFolder, remove_abandoned
from engine.exit_codes import Exit

log = logging.getLogger(__name__)

RESTART_LIMIT = 3
RESTART_WINDOW = 60.0
RESTART_DELAYS = (0.3, 1.0, 2.0)
EXIT_GRACE = 3.0
REFUSALS = (Exit.FAILED, Exit.UNUSABLE)
"""Exit codes by which a worker says it can't run as asked: starting it again would not help."""

Command = Callable[[Path], list[str]]
"""The worker's command line for a socket path."""


def engine_command(settings: WorkerSettings, log_file: Path) -> Command:
    """`python -m engine` as the workbench runs it."""

    def command(socket: Path) -> list[str]:
        # -P keeps a folder named "engine" in the current directory from being imported instead
        line = [sys.executable, "-P", "-m", "engine", "--socket", str(socket), "--parent-pipe"]
        line += ["--max-batch", str(settings.max_batch), "--precision", settings.precision]
        line += ["--log", str(log_file), *settings.drafting_options]
        return [*line, "--model", settings.model] if settings.model else line

    return command


class WorkerPhase(StrEnum):
    STARTING = "starting"  # the process runs; whether it answers is for its client to find out
    RESTARTING = "restarting"  # it died and will be started again after a moment
    FAILED = "failed"  # it can't run, or died too often; `restart` tries again
    STOPPED = "stopped"


class WorkerState(Struct, frozen=True):
    """reason: one line about the latest death or failure, "" before any."""

    phase: WorkerPhase
    reason: str = ""
    pid: int = 0


class Worker:
    """One worker process at a time, on a socket in a private folder of its own."""

    def __init__(self, command: Command, on_change: Callable[[WorkerState], None]) -> None:
        self._command = command
        self._on_change = on_change
        self._folder: PrivateFolder | None = None
        self.state = WorkerState(WorkerPhase.STOPPED)
        self._spawning: asyncio.Task[Process] | None = None
        self._stderr: deque[str] = deque(maxlen=20)
        self._deaths: deque[float] = deque(maxlen=RESTART_LIMIT + 1)
        self._watch: asyncio.Task[None] | None = None

    @property
    def socket(self) -> Path | None:
        """Where it listens; None before `start`, and where there can be no folder for it."""
        return self._folder.socket if self._folder is not None else None

    def start(self) -> None:
        """Begin to keep a worker running; returns at once."""
        if self._folder is None:
            remove_abandoned()
            try:
                self._folder = PrivateFolder()
            except OSError as error:
                why = f"no folder for the engine's socket: {error.strerror or error}; set TMPDIR"
                self._set(WorkerState(WorkerPhase.FAILED, why))
                return
        keep = self._keep_running(self._folder.socket)
        self._watch = asyncio.create_task(keep, name="worker")

    async def restart(self) -> None:
        """Stop the worker if it runs and start afresh, earlier deaths forgotten."""
        await self._stop()
        self._deaths.clear()
        self._set(WorkerState(WorkerPhase.RESTARTING, "restarting as you asked"))
        self.start()

    async def close(self) -> None:
        """Stop the worker and remove its folder."""
        await self._stop()
        self._set(WorkerState(WorkerPhase.STOPPED))
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    async def _stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        if self._spawning is None:
            return
        with suppress(OSError):
            await _end(await self._spawning)
        self._spawning = None

    async def _keep_running(self, socket: Path) -> None:
        while True:
            reason, refused = await self._run_once(socket)
            if refused or self._too_many_deaths():
                if not refused:
                    reason = f"{reason}; {RESTART_LIMIT} restarts in a minute did not help"
                self._set(WorkerState(WorkerPhase.FAILED, reason))
                return
            self._set(WorkerState(WorkerPhase.RESTARTING, reason))
            await asyncio.sleep(RESTART_DELAYS[min(len(self._deaths), len(RESTART_DELAYS)) - 1])

    async def _run_once(self, socket: Path) -> tuple[str, bool]:
        """Run the worker to its end. Returns why it ended and whether a new start is pointless."""
        socket.unlink(missing_ok=True)
        self._stderr.clear()
        self._spawning = asyncio.create_task(_spawn(self._command(socket)))
        try:
            # shielded: asyncio waits for ever when it is cancelled while it sets up the pipes
            process = await asyncio.shield(self._spawning)
        except OSError as error:
            return f"the engine can't be started: {error.strerror or error}", True
        self._set(WorkerState(WorkerPhase.STARTING, self.state.reason, process.pid))
        await self._read_stderr(process)
        code = await process.wait()
        reason = self._reason(code)
        log.warning("worker %d ended: %s", process.pid, reason)
        return reason, code in REFUSALS

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(65536):
            for line in chunk.decode(errors="replace").splitlines():
                if line.strip():
                    self._stderr.append(line.strip())
                    log.info("worker: %s", line.rstrip())

    def _reason(self, code: int) -> str:
        if code < 0:
            return f"the engine was ended by {_signal_name(-code)}"
        last = self._stderr[-1].removeprefix("engine: ") if self._stderr else ""
        return last or f"the engine ended with code {code}"

    def _too_many_deaths(self) -> bool:
        now = time.monotonic()
        self._deaths.append(now)
        recent = [death for death in self._deaths if now - death < RESTART_WINDOW]
        return len(recent) > RESTART_LIMIT

    def _set(self, state: WorkerState) -> None:
        self.state = state
        self._on_change(state)


async def _spawn(command: list[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # the terminal's ^C and hang-up are for the workbench
    )


async def _end(process: Process) -> None:
    """Let it end by itself, then not."""
    if process.returncode is not None:
        return
    if process.stdin is not None:
        process.stdin.close()  # a worker takes the end of its stdin as the end of its parent
    try:
        await asyncio.wait_for(process.wait(), EXIT_GRACE)
    except TimeoutError:
        process.kill()
        await process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
