"""Several workbenches on one server: each sees everything, and a lost server is found again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from dspark_tui.conversation.session import TurnStatus
from dspark_tui.engines import client
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, fast, panes, slow
from tests.tui.scripted_engine import ScriptedServer
from tests.tui.test_app_engines import status
from tests.tui.test_app_sessions import listed, new_session


def labels(bench: Bench) -> list[str]:
    return [lane.label for lane in bench.link.live.lanes]


def foreign(bench: Bench) -> list[str]:
    return [lane.label for lane in bench.link.live.lanes if lane.foreign]


def panel(bench: Bench) -> str:
    panel = bench.workbench.panel
    return "\n".join(panel.render_line(y).text for y in range(panel.size.height))


async def test_two_workbenches_see_each_other_s_requests_and_pauses(
    open_bench: OpenBench, sockets: Path
) -> None:
    with ScriptedServer(calm(), sockets / "shared.sock") as server:
        another = panes(1, name="other", max_tokens=100_000)
        async with (
            open_bench(place=server.url, settings=ENDLESS) as one,
            open_bench(place=server.url, settings=another) as other,
        ):
            for bench in (one, other):
                await bench.until(lambda bench=bench: bench.link.ready.is_set())  # type: ignore[misc]
            await one.send("hello")
            await one.until(lambda: len(labels(one)) == 2)
            await other.send("hello")
            for bench in (one, other):
                await bench.until(lambda bench=bench: labels(bench) == ["1", "2", "1 other"])  # type: ignore[misc]
            assert foreign(one) == ["1 other"]
            assert foreign(other) == ["1", "2"]
            await one.until(lambda: "r3 *1 other" in panel(one))
            assert "* not ours" in panel(one)
            await other.press("escape", "P")
            await one.until(lambda: "paused" in status(one))
            await one.press("escape", "L", "down", "down", "x")
            await other.until(lambda: other.turn(1).status is TurnStatus.STOPPED)
            await other.until(lambda: "another client" in other.notes(1))
            assert str(other.pane(1).border_subtitle).startswith("✗ stopped elsewhere  ")
            await one.press("up", "x")
            await one.until(lambda: one.turn(2).status is TurnStatus.STOPPED)
            assert "another client" not in one.notes(2)


async def test_what_an_earlier_start_asked_is_ours_again_with_its_session(
    open_bench: OpenBench, sockets: Path
) -> None:
    with ScriptedServer(fast(), sockets / "shared.sock") as server:
        async with open_bench(place=server.url, settings=panes(1, name="first")) as one:
            await one.send("hello")
            await one.until_idle()
            await new_session(one)
            await one.send("hello again")
            await one.until_idle()
        async with open_bench(place=server.url) as again:
            await again.until(lambda: labels(again) == ["1 first"])
            assert again.turn(1).prompt == "hello again"
            assert foreign(again) == []
            earlier, latest = again.link.live.engine.requests
            assert again.link.live.strangers == {earlier}
            await again.press("escape", "O")
            await again.until(lambda: len(listed(again)) == 2)
            await again.press("down", "enter")
            await again.until(lambda: again.app.screen is again.workbench)
            await again.until(lambda: again.link.live.strangers == set())
            assert [*again.link.live.engine.requests] == [earlier, latest]


async def test_a_server_that_is_killed_and_started_again_is_followed_from_its_snapshot(
    open_bench: OpenBench, sockets: Path
) -> None:
    socket = sockets / "shared.sock"
    async with AsyncExitStack() as stack:
        with ScriptedServer(slow(), socket) as server:
            one = await stack.enter_async_context(open_bench(place=server.url, settings=ENDLESS))
            other = await stack.enter_async_context(open_bench(place=server.url, settings=panes(1)))
            await one.send("hello")
            await one.until(lambda: one.turn(1).status is TurnStatus.RUNNING)
            await other.until(lambda: len(labels(other)) == 2)
        for bench in (one, other):
            await bench.until(lambda bench=bench: "engine lost" in status(bench))  # type: ignore[misc]
            assert "trying again" in status(bench)
            assert not bench.link.live.active
        await one.until_idle()
        assert one.turn(1).status is TurnStatus.INTERRUPTED
        with ScriptedServer(fast(), socket):
            await other.send("hello again")
            await other.until_idle()
            assert other.turn(1).status is TurnStatus.DONE
            await one.until(lambda: labels(one) == ["1"])
            await stack.aclose()


async def test_a_server_that_falls_silent_is_given_up_and_tried_again(
    open_bench: OpenBench, serve, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    """As after a cut cable: the connection stays open and nothing comes any more."""
    monkeypatch.setattr(client, "SILENCE", 0.2)
    asked: list[None] = []
    app = FastAPI()

    @app.get("/engine/events")
    def events() -> StreamingResponse:
        async def silent():  # type: ignore[no-untyped-def]
            asked.append(None)
            yield ": nothing\n\n"
            await asyncio.sleep(3600)

        return StreamingResponse(silent(), media_type="text/event-stream")

    async with serve(app) as url, open_bench(place=url) as bench:
        await bench.until(lambda: "went away, trying again" in status(bench))
        await bench.until(lambda: len(asked) > 2)


async def test_a_missing_key_is_said_with_the_way_to_give_it(
    open_bench: OpenBench, sockets: Path
) -> None:
    with ScriptedServer(fast(), sockets / "locked.sock", api_key="secret") as server:
        async with open_bench(place=server.url) as bench:
            await bench.until(lambda: "its key goes into --api-key" in status(bench))
