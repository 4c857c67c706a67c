"""The supervisor of the worker process, with processes that do one thing each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from dspark_tui.engines import worker
from dspark_tui.engines.worker import (
    Command,
    Worker,
    WorkerPhase,
    WorkerState,
    engine_command,
)
from dspark_tui.engines.worker_settings import WorkerSettings

Supervise = Callable[[Command], Worker]


def python(code: str) -> Callable[[Path], list[str]]:
    return lambda socket: [sys.executable, "-c", code, str(socket)]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def states() -> list[WorkerState]:
    """Every state the supervisor reported."""
    return []


@pytest.fixture
async def supervise(states: list[WorkerState]) -> AsyncIterator[Callable[[Command], Worker]]:
    """Start a supervisor for a command; it is closed afterwards, whatever happens."""
    started: list[Worker] = []

    def start(command: Command) -> Worker:
        started.append(Worker(command, states.append))
        started[-1].start()
        return started[-1]

    yield start
    for supervised in started:
        await supervised.close()


async def test_a_refusal_is_final_and_its_last_line_is_the_reason(
    supervise: Supervise, states: list
) -> None:
    code = "import sys; print('noise', file=sys.stderr); sys.exit('the port is taken')"
    supervised = supervise(python(code))
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert supervised.state.reason == "the port is taken"
    assert [state.phase for state in states] == [WorkerPhase.STARTING, WorkerPhase.FAILED]


async def test_a_death_is_followed_by_a_new_process(
    supervise: Supervise, states: list, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    code = f"""
import os, pathlib, sys
if not pathlib.Path({str(once)!r}).exists():
    pathlib.Path({str(once)!r}).touch()
    os.abort()
sys.stdin.read()
"""
    supervise(python(code))
    await until(lambda: [s.phase for s in states].count(WorkerPhase.STARTING) == 2)
    died = next(state for state in states if state.phase is WorkerPhase.RESTARTING)
    assert died.reason == "the engine was ended by SIGABRT"
    assert len({state.pid for state in states if state.pid}) == 2


async def test_deaths_in_a_row_are_given_up_and_restart_begins_anew(
    supervise: Supervise, states: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "RESTART_DELAYS", (0.0,))
    supervised = supervise(python("import os; os.kill(os.getpid(), 9)"))
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    starts = [state.phase for state in states].count(WorkerPhase.STARTING)
    assert starts == worker.RESTART_LIMIT + 1
    states.clear()
    await supervised.restart()
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert [state.phase for state in states].count(WorkerPhase.STARTING) == starts


async def test_closing_ends_a_worker_that_heeds_the_pipe_and_one_that_does_not(
    supervise: Supervise, states: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "EXIT_GRACE", 0.2)
    deaf = "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    for code in ("import sys; sys.stdin.read()", deaf):
        supervised = supervise(python(code))
        await until(lambda supervised=supervised: supervised.state.pid)
        pid, folder = supervised.state.pid, supervised.socket.parent
        await supervised.close()
        assert not psutil.pid_exists(pid)
        assert not folder.exists()


async def test_a_chatty_worker_never_blocks_on_its_stderr(
    supervise: Supervise, states: list
) -> None:
    code = "import sys; sys.stderr.write('x' * 3_000_000); sys.exit('done talking')"
    supervised = supervise(python(code))
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert supervised.state.reason.endswith("done talking")


async def test_a_program_that_is_not_there_is_a_reason_too(
    supervise: Supervise, states: list
) -> None:
    supervised = supervise(lambda _: ["/nonexistent/python"])
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert "can't be started" in supervised.state.reason


def test_the_worker_s_command_line(tmp_path: Path) -> None:
    line = engine_command(WorkerSettings("org/model", 4, "fp32"), tmp_path / "e.log")(
        tmp_path / "s"
    )
    assert line[1:4] == ["-P", "-m", "engine"]
    assert "--parent-pipe" in line
    assert line[line.index("--model") + 1] == "org/model"
    assert "--model" not in engine_command(WorkerSettings(), tmp_path / "e.log")(tmp_path / "s")


async def test_closing_while_the_process_is_being_started_neither_hangs_nor_leaks(
    supervise: Supervise, states: list
) -> None:
    for pause in (0, 0.001, 0.005, 0.02):
        supervised = supervise(python("import sys; sys.stdin.read()"))
        await asyncio.sleep(pause)
        await asyncio.wait_for(supervised.close(), 60)
    for pid in {state.pid for state in states if state.pid}:
        assert not psutil.pid_exists(pid)
