"""The supervisor of the worker process, with processes that do one thing each."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dspark_tui import worker
from dspark_tui.worker import Worker, WorkerPhase, WorkerState, engine_command, private_folder


def python(code: str) -> Callable[[Path], list[str]]:
    return lambda socket: [sys.executable, "-c", code, str(socket)]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def states() -> list[WorkerState]:
    return []


async def test_a_refusal_is_final_and_its_last_line_is_the_reason(states: list) -> None:
    code = "import sys; print('noise', file=sys.stderr); sys.exit('the port is taken')"
    supervised = Worker(python(code), states.append)
    supervised.start()
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert supervised.state.reason == "the port is taken"
    assert [state.phase for state in states] == [WorkerPhase.STARTING, WorkerPhase.FAILED]
    await supervised.close()


async def test_a_death_is_followed_by_a_new_process(states: list, tmp_path: Path) -> None:
    once = tmp_path / "once"
    code = f"""
import os, pathlib, sys
if not pathlib.Path({str(once)!r}).exists():
    pathlib.Path({str(once)!r}).touch()
    os.abort()
sys.stdin.read()
"""
    supervised = Worker(python(code), states.append)
    supervised.start()
    await until(lambda: [s.phase for s in states].count(WorkerPhase.STARTING) == 2)
    died = next(state for state in states if state.phase is WorkerPhase.RESTARTING)
    assert died.reason == "the engine was ended by SIGABRT"
    assert len({state.pid for state in states if state.pid}) == 2
    await supervised.close()


async def test_deaths_in_a_row_are_given_up_and_restart_begins_anew(
    states: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "RESTART_DELAYS", (0.0,))
    supervised = Worker(python("import os; os.kill(os.getpid(), 9)"), states.append)
    supervised.start()
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    starts = [state.phase for state in states].count(WorkerPhase.STARTING)
    assert starts == worker.RESTART_LIMIT + 1
    states.clear()
    await supervised.restart()
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert [state.phase for state in states].count(WorkerPhase.STARTING) == starts
    await supervised.close()


async def test_closing_ends_a_worker_that_heeds_the_pipe_and_one_that_does_not(
    states: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "EXIT_GRACE", 0.2)
    deaf = "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    for code in ("import sys; sys.stdin.read()", deaf):
        supervised = Worker(python(code), states.append)
        supervised.start()
        await until(lambda supervised=supervised: supervised.state.pid)
        pid, folder = supervised.state.pid, supervised.socket.parent
        await supervised.close()
        assert not Path(f"/proc/{pid}").exists()
        assert not folder.exists()


async def test_a_chatty_worker_never_blocks_on_its_stderr(states: list) -> None:
    code = "import sys; sys.stderr.write('x' * 3_000_000); sys.exit('done talking')"
    supervised = Worker(python(code), states.append)
    supervised.start()
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert supervised.state.reason.endswith("done talking")
    await supervised.close()


async def test_a_program_that_is_not_there_is_a_reason_too(states: list) -> None:
    supervised = Worker(lambda _: ["/nonexistent/python"], states.append)
    supervised.start()
    await until(lambda: supervised.state.phase is WorkerPhase.FAILED)
    assert "can't be started" in supervised.state.reason
    await supervised.close()


def test_a_deep_temporary_folder_does_not_make_the_socket_s_path_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = private_folder()
    assert len(str(folder / worker.SOCKET_NAME)) <= worker.SOCKET_PATH_LIMIT
    assert not list(deep.iterdir())
    folder.rmdir()


def test_the_worker_s_command_line(tmp_path: Path) -> None:
    line = engine_command("org/model", 4, "fp32", tmp_path / "e.log")(tmp_path / "s")
    assert line[1:4] == ["-P", "-m", "engine"]
    assert "--parent-pipe" in line
    assert line[line.index("--model") + 1] == "org/model"
    assert "--model" not in engine_command("", 8, "auto", tmp_path / "e.log")(tmp_path / "s")
