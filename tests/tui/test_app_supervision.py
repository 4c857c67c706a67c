"""The engine worker dies, can't start, or is not ours: the workbench stays sane and says so."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from dspark_tui.conversation.session import TurnStatus
from dspark_tui.engines.worker import Command, WorkerPhase
from dspark_tui.widgets.status_bar import StatusBar
from tests.tui.conftest import Bench, OpenBench, panes


def scripted(*options: str) -> Command:
    """A worker process of its own, so that it can die of a real signal."""
    line = [sys.executable, "-m", "tests.tui.scripted_engine", "--parent-pipe", *options]
    return lambda socket: [*line, "--socket", str(socket)]


def status(bench: Bench) -> str:
    return str(bench.workbench.query_one(StatusBar).render())


async def kill_worker(bench: Bench, number: signal.Signals) -> None:
    worker = bench.link.worker
    assert worker is not None
    os.kill(worker.state.pid, number)


async def test_a_native_crash_mid_stream_keeps_the_text_and_r_sends_again(
    open_bench: OpenBench,
) -> None:
    place = scripted("--rate", "30")
    async with open_bench(place=place, settings=panes(max_tokens=100_000)) as bench:
        await bench.send("tell me")
        await bench.until(lambda: all(len(bench.turn(n).answer) > 20 for n in (1, 2)))
        before = bench.turn(1).answer
        await kill_worker(bench, signal.SIGSEGV)
        await bench.until_idle()
        assert bench.turn(1).status is bench.turn(2).status is TurnStatus.INTERRUPTED
        assert bench.turn(1).answer.startswith(before)
        assert str(bench.pane(1).border_subtitle).startswith("! interrupted  ")
        await bench.until(lambda: bench.link.ready.is_set())
        assert not any(r.finished is None for r in bench.link.live.engine.requests.values())
        await bench.press("escape", "r")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.RUNNING)
        assert before in bench.conversation(1).starts[0].answer


async def test_what_is_sent_while_the_worker_restarts_waits_for_it(open_bench: OpenBench) -> None:
    async with open_bench(place=scripted("--rate", "200")) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        await kill_worker(bench, signal.SIGKILL)
        await bench.until(lambda: "SIGKILL" in status(bench))
        await bench.send("anyone there?")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.DONE


async def test_a_worker_that_cannot_run_says_why_and_a_key_tries_again(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    marker = tmp_path / "fixed"
    refusal = "import sys; sys.exit('no model called nonesuch; dspark-tui models lists them')"

    def place(socket: Path) -> list[str]:
        return scripted()(socket) if marker.exists() else [sys.executable, "-c", refusal]

    async with open_bench(place=place) as bench:
        await bench.send("hello")
        await bench.until(lambda: bench.link.failed)
        await bench.until(lambda: "no model called nonesuch" in status(bench))
        await bench.until(lambda: "no model called nonesuch" in str(bench.pane(2).border_subtitle))
        assert bench.turn(1).status is TurnStatus.WAITING
        marker.touch()
        await bench.press("escape", "E")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.DONE
        await bench.until(lambda: "token limit" in str(bench.pane(2).border_subtitle))


async def test_a_restart_goes_on_when_another_session_is_opened_meanwhile(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspark_tui.engines.worker.EXIT_GRACE", 0.5)
    deaf = "import time; time.sleep(600)"
    async with open_bench(place=lambda _: [sys.executable, "-c", deaf]) as bench:
        worker, old = bench.link.worker, bench.workbench
        assert worker is not None
        await bench.until(lambda: worker.state.pid)
        before = worker.state.pid
        old.action_restart()
        old.action_new_session()
        await bench.until(lambda: bench.workbench is not old)
        await bench.until(lambda: worker.state.pid not in (0, before))


async def test_a_worker_that_keeps_dying_is_given_up_with_its_last_words(
    open_bench: OpenBench,
) -> None:
    crash = "import os, sys; print('out of luck', file=sys.stderr, flush=True); os._exit(70)"
    async with open_bench(place=lambda _: [sys.executable, "-c", crash]) as bench:
        await bench.until(lambda: bench.link.failed)
        worker = bench.link.worker
        assert worker is not None
        assert worker.state.phase is WorkerPhase.FAILED
        await bench.until(lambda: "out of luck; 3 restarts in a minute" in status(bench))


async def test_a_load_failure_is_shown_in_one_line(open_bench: OpenBench) -> None:
    place = scripted("--load-seconds", "0.1", "--load-error", "the model needs 90 GB [/x]")
    async with open_bench(place=place) as bench:
        await bench.until(lambda: "the model needs 90 GB [/x]" in status(bench))


async def test_without_a_folder_for_the_socket_it_says_so_and_a_key_tries_again(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr("dspark_tui.engines.worker.PrivateFolder", refuse)
        async with open_bench(place=scripted()) as bench:
            await bench.until(lambda: "Read-only file system; set TMPDIR" in status(bench))
            patch.undo()
            await bench.press("escape", "E")
            await bench.until(lambda: bench.link.ready.is_set())
            await bench.press("i")
            await bench.send("hello")
            await bench.until_idle()
            assert bench.turn(1).status is TurnStatus.DONE


async def test_leaving_takes_the_worker_and_its_folder_along(open_bench: OpenBench) -> None:
    async with open_bench(place=scripted()) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        worker = bench.link.worker
        assert worker is not None
        pid, folder = worker.state.pid, worker.socket.parent
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    assert not psutil.pid_exists(pid)


async def test_two_workbenches_have_an_engine_each(open_bench: OpenBench) -> None:
    async with open_bench(place=scripted()) as one, open_bench(place=scripted()) as other:
        for bench in (one, other):
            await bench.until(lambda bench=bench: bench.link.ready.is_set())  # type: ignore[misc]
        assert one.link.live.engine.pid != other.link.live.engine.pid


def plain_server() -> FastAPI:
    """An OpenAI-compatible server that knows nothing of batches."""
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, object]:
        return {"data": [{"id": "elsewhere-7b"}]}

    @app.post("/v1/chat/completions")
    def chat() -> StreamingResponse:
        chunk = 'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": null}]}\n\n'
        last = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
        return StreamingResponse(
            iter([chunk, last, "data: [DONE]\n\n"]), media_type="text/event-stream"
        )

    return app


async def test_any_openai_server_can_be_attached_and_its_batch_is_said_to_be_hidden(
    open_bench: OpenBench, serve
) -> None:  # type: ignore[no-untyped-def]
    async with serve(plain_server()) as url, open_bench(place=f"{url}/v1") as bench:
        await bench.send("hello")
        await bench.until_idle()
        assert bench.turn(1).answer == "hi"
        assert bench.turn(1).status is TurnStatus.DONE
        await bench.until(lambda: "elsewhere-7b" in status(bench))
        assert "slots: not visible" in status(bench)
        (lane, _) = bench.link.live.lanes
        assert (lane.label, lane.request.tokens, lane.waited(0.0)) == ("1", 1, None)


async def test_an_attached_server_that_is_not_there_is_named(open_bench: OpenBench) -> None:
    async with open_bench(place="http://127.0.0.1:9") as bench:
        await bench.until(
            lambda: "no engine: http://127.0.0.1:9 does not answer, trying again" in status(bench)
        )
        await bench.send("waits")
        await bench.pilot.pause(0.2)
        assert bench.turn(1).status is TurnStatus.WAITING
        await bench.press("escape", "S")
        await bench.until_idle()
        assert bench.turn(1).status is bench.turn(2).status is TurnStatus.STOPPED
