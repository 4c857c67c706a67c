"""Servers of other makers: what they reveal is shown, our own requests are timed from here."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from socket import SO_REUSEPORT, SOL_SOCKET, socket

import pytest
import uvicorn
from fastapi import FastAPI

from dspark_tui.conversation.session import TurnStatus
from dspark_tui.engines.entries import EngineEntry
from engine.events import Load
from tests.tui.conftest import Bench, OpenBench, panes
from tests.tui.foreign_server import VLLM, ForeignServer
from tests.tui.test_app_engines import on, panel_title, status

ENDLESS = 10**6
CALM = 0.05
"""Seconds between words; faster, and each key a test presses waits in vain for a quiet moment."""


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server reveals is looked at all the time, so that no test waits for it."""
    for period in ("LOOK_PERIOD", "QUIET_PERIOD"):
        monkeypatch.setattr(f"dspark_tui.engines.link.{period}", 0.05)


def panel(bench: Bench) -> str:
    shown = bench.workbench.panel
    return "\n".join(shown.render_line(y).text.rstrip() for y in range(shown.size.height))


async def test_a_burst_elsewhere_is_timed_and_judged_by_our_stopwatch(
    open_bench: OpenBench, serve
) -> None:  # type: ignore[no-untyped-def]
    server = ForeignServer()
    async with serve(server.app()) as url, open_bench(place=url, settings=panes(3)) as bench:
        await bench.until(lambda: "elsewhere-7b   slots" in status(bench))
        assert "slots: not visible   by our stopwatch" in status(bench)
        await bench.send("hello")
        await bench.until_idle()
        lanes = bench.link.live.lanes
        assert [(lane.label, lane.request.tokens) for lane in lanes] == [
            ("1", 40),
            ("2", 40),
            ("3", 40),
        ]
        assert bench.link.live.verdict is not None
        await bench.until(lambda: "tok/s aggregate" in panel(bench))
        assert "slots: not visible   by our stopwatch" in panel_title(bench)
        await bench.until(lambda: "at once max 3" in panel(bench))


async def test_vllm_s_metrics_are_read(open_bench: OpenBench, serve) -> None:  # type: ignore[no-untyped-def]
    server = ForeignServer(ENDLESS, CALM, metrics=VLLM)
    async with serve(server.app()) as url, open_bench(place=url) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        await bench.send("hello")
        shown = "2 running, 0 waiting, K/V 25%, slots: not visible"
        await bench.until(lambda: shown in panel_title(bench))
        await bench.press("escape", "S")
        await bench.until(lambda: not server.running)


async def test_llama_cpp_s_slots_are_drawn(open_bench: OpenBench, serve) -> None:  # type: ignore[no-untyped-def]
    server = ForeignServer(ENDLESS, CALM, slots=4)
    async with serve(server.app()) as url, open_bench(place=url) as bench:
        await bench.until(lambda: bench.link.live.engine.load == Load(0.0, "/slots", 4, 0))
        await bench.send("hello")
        await bench.until(lambda: "2 of 4 slots busy" in panel_title(bench))
        await bench.until(lambda: "▮▮▯▯  2 of 4 slots busy, says /slots" in panel(bench))
        await bench.press("escape", "S")
        await bench.until_idle()


async def test_a_server_that_reveals_nothing_is_not_asked_again(
    open_bench: OpenBench, serve
) -> None:  # type: ignore[no-untyped-def]
    server = ForeignServer()
    async with serve(server.app()) as url, open_bench(place=url) as bench:
        await bench.until(lambda: "/metrics" in server.paths)
        await bench.pilot.pause(0.3)
        assert server.paths.count("/metrics") == 1


async def test_an_entry_s_model_key_and_headers_travel(
    open_bench: OpenBench, serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("THEIR_KEY", "secret")
    server = ForeignServer()
    async with serve(server.app()) as url:
        entry = EngineEntry(
            "elsewhere-70b", url=url, api_key_env="THEIR_KEY", headers={"X-T": "us"}
        )
        async with open_bench(settings=on("cloud", cloud=entry)) as bench:
            await bench.send("hello")
            await bench.until_idle()
            await bench.until(lambda: "cloud  elsewhere-70b   slots" in status(bench))
    assert server.bodies[0]["model"] == "elsewhere-70b"
    assert (server.headers[0]["authorization"], server.headers[0]["x-t"]) == ("Bearer secret", "us")


async def test_what_another_server_does_not_offer_is_refused_in_words(
    open_bench: OpenBench, serve
) -> None:  # type: ignore[no-untyped-def]
    server = ForeignServer(ENDLESS, CALM)
    async with serve(server.app()) as url, open_bench(place=url) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        await bench.press("escape", "P")
        assert f"{url} can't be paused from here" in bench.notices()
        await bench.press("i")
        await bench.send("hello")
        for number in (1, 2):
            await bench.until(lambda n=number: bench.turn(n).status is TurnStatus.RUNNING)  # type: ignore[misc]
        await bench.press("escape", "L", "down", "x")
        await bench.until(lambda: bench.turn(2).status is TurnStatus.STOPPED)
        assert bench.turn(1).status is TurnStatus.RUNNING
        await bench.until(lambda: server.running == 1)
        assert "/engine/pause" not in server.paths
        assert not any("/engine/cancel" in path for path in server.paths)


def bound(port: int = 0) -> socket:
    """A socket at that port of ours, which does not listen yet."""
    place = socket()
    place.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1)
    place.bind(("127.0.0.1", port))
    return place


class Restartable:
    """A server that can go away and come back at the same port, which somebody holds for it."""

    def __init__(self, app: FastAPI, port: int) -> None:
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        self._port = port

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._server.serve([bound(self._port)]))
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await self._task


async def test_a_server_that_goes_is_said_to_be_lost_and_used_again_once_it_is_back(
    open_bench: OpenBench,
) -> None:
    with bound() as place:  # while the server is away nobody else gets the port
        port = place.getsockname()[1]
        async with AsyncExitStack() as stack:
            async with Restartable(ForeignServer(ENDLESS, CALM, slots=2).app(), port):
                opening = open_bench(place=f"http://127.0.0.1:{port}", settings=panes(1))
                bench = await stack.enter_async_context(opening)
                await bench.send("hello")
                await bench.until(lambda: bench.turn(1).status is TurnStatus.RUNNING)
            await bench.until(lambda: "engine lost" in status(bench))
            await bench.until_idle()
            assert bench.turn(1).status is TurnStatus.INTERRUPTED
            async with Restartable(ForeignServer(slots=2).app(), port):
                await bench.send("again")
                await bench.until_idle()
                assert bench.turn(1).status is TurnStatus.DONE
                assert len(bench.link.live.engine.requests) == 2
                await stack.aclose()
