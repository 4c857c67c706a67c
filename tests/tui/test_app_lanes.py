"""Requests in the live view, whoever asked: chosen and cancelled there; the engine paused."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.conversation.session import TurnStatus
from dspark_tui.widgets.batch_panel import Mode
from dspark_tui.widgets.key_bar import KeyBar
from engine.events import Capability, Phase
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, panes, slow
from tests.tui.stage import lines
from tests.tui.test_app_engines import panel_title, status

ASK = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 100_000}


@asynccontextmanager
async def agent(bench: Bench, **headers: str) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """Somebody else who asks the bench's server and waits for the whole answer."""
    assert bench.server is not None
    transport = httpx.AsyncHTTPTransport(uds=str(bench.server.socket))
    async with httpx.AsyncClient(transport=transport, timeout=60, headers=headers) as http:
        asking = asyncio.create_task(http.post("http://engine/v1/chat/completions", json=ASK))
        yield asking
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def labels(bench: Bench) -> list[str]:
    return [lane.label for lane in bench.link.live.lanes]


def picked(bench: Bench) -> str:
    lane = bench.workbench.panel.picked_lane
    return lane.label if lane else ""


def bar(bench: Bench) -> str:
    return str(bench.workbench.query_one(KeyBar).render())


async def test_an_agent_s_request_is_named_chosen_and_cancelled(open_bench: OpenBench) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        await bench.send("hello")
        await bench.until(lambda: len(labels(bench)) == 2)
        async with agent(bench, **{"User-Agent": "OpenAI/Python 2.1"}) as asking:
            await bench.until(lambda: labels(bench) == ["1", "2", "openai-python"])
            await bench.press("escape", "L")
            assert picked(bench) == "1"
            assert "x cancel" in bar(bench)
            await bench.press("down", "j", "down")
            assert picked(bench) == "openai-python"
            await bench.press("x")
            answer = await asking
            assert (answer.status_code, answer.json()["error"]["code"]) == (499, "cancelled")
            await bench.until(lambda: "cancelled r3 openai-python" in bench.notices())
            await bench.until(lambda: bench.link.live.lanes[2].request.finished is not None)
        await bench.until(lambda: bench.turn(2).status is TurnStatus.RUNNING)
        assert bench.turn(1).status is TurnStatus.RUNNING
        await bench.press("x")
        assert "r3 openai-python has ended already" in bench.notices()
        await bench.press("up", "delete")
        await bench.until(lambda: bench.turn(2).status is TurnStatus.STOPPED)
        await bench.press("escape")
        assert bench.workbench.focused is bench.pane(1)
        assert "x close" in bar(bench)
        assert picked(bench) == ""


async def test_the_panel_is_opened_for_choosing_and_keys_of_the_panes_act_there(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        while bench.workbench.panel.mode is not Mode.OFF:
            await bench.press("f3")
        await bench.press("escape", "L")
        assert bench.workbench.panel.mode is Mode.SMALL
        await bench.press("x")
        assert any("no request is chosen" in notice for notice in bench.notices())
        await bench.press("2")
        assert bench.workbench.session.active.number == 2
        await bench.press("i")
        assert bench.composer.has_focus


async def test_where_there_is_no_room_for_the_panel_it_is_said(open_bench: OpenBench) -> None:
    async with open_bench(size=(50, 18)) as bench:
        await bench.press("escape", "L")
        assert bench.notices() == ["no room for the batch panel here"]
        assert bench.workbench.focused is bench.pane(1)


async def test_w_writes_a_row_for_each_request_whoever_asked(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_bench(slow(slots=2), settings=panes(2, max_tokens=100_000)) as bench:
        await bench.press("escape", "L", "w")
        assert bench.notices() == ["no requests yet"]
        await bench.press("i")
        await bench.send("hello")
        await bench.until(lambda: bench.turn(2).answer)
        async with agent(bench, **{"User-Agent": "curl/8"}):
            await bench.until(lambda: len(labels(bench)) == 3)
            await bench.press("escape", "2", "s")
            await bench.until(lambda: bench.turn(2).status is TurnStatus.STOPPED)
            await bench.until(lambda: bench.link.live.lanes[2].request.tokens)
            await bench.press("L", "w")
            await bench.until(lambda: list(tmp_path.glob("requests-*.csv")))
            (file,) = tmp_path.glob("requests-*.csv")
            await bench.until(lambda: any(file.name in notice for notice in bench.notices()))
    with file.open(encoding="utf-8", newline="") as text:
        first, stopped, others = csv.DictReader(text)
    assert [row["source"] for row in (first, stopped, others)] == ["1", "2", "curl"]
    assert [row["state"] for row in (first, stopped, others)] == ["decode", "stopped", "decode"]
    assert (stopped["reason"], first["reason"]) == ("cancelled", "")
    assert (first["end"], first["total"]) == ("", "")
    assert stopped["start"] < stopped["end"]
    assert int(stopped["tokens"]) > 0
    assert 0 <= float(stopped["prefill"]) <= float(stopped["ttft"]) < float(stopped["total"])
    assert float(others["waited"]) > 0


async def test_a_pause_holds_everybody_s_requests_visibly(open_bench: OpenBench) -> None:
    async with open_bench(slow(), settings=panes(1)) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        await bench.press("escape", "P")
        await bench.until(lambda: "paused: new requests wait" in status(bench))
        await bench.press("i")
        await bench.send("hello")
        async with agent(bench) as asking:
            await bench.until(lambda: labels(bench) == ["1", "python-httpx"])
            await bench.until(lambda: "paused: new requests wait" in panel_title(bench))
            subtitle = "queued 1st"
            await bench.until(lambda: subtitle in str(bench.pane(1).border_subtitle))
            assert str(bench.pane(1).border_subtitle).rstrip().endswith(", paused")
            phases = {r.phase for r in bench.link.live.engine.requests.values()}
            assert phases == {Phase.QUEUED}
            await bench.press("escape", "L", "p")
            await bench.until_idle()
            assert bench.turn(1).status is TurnStatus.DONE
            assert "paused" not in status(bench)
            assert not asking.done()


async def test_slots_are_those_the_engine_tells_of_and_what_was_asked_for_is_said_to_be_that(
    open_bench: OpenBench,
) -> None:
    async with open_bench(slow(slots=1), settings=replace(panes(2), max_batch=4)) as bench:
        await bench.until(lambda: "0 of 1 slots busy" in status(bench))
        link = bench.link
        refused = Capability(link.now(), "batching", "4 rows", "1 row", "it is mamba", refused=True)
        link.live.apply(refused)
        panel = bench.workbench.panel
        await bench.until(
            lambda: (
                "batching: asked for 4 rows, got 1 row" in " ".join(" ".join(lines(panel)).split())
            )
        )
        assert "4 slots" not in status(bench)


async def test_both_are_in_the_palette_and_in_the_help(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("f1")
        text = "\n".join(str(part.render()) for part in bench.app.screen.query(Static))
        assert "Requests: choose one in the batch panel" in text
        assert "Pause the engine: new requests wait" in text
        keymap = bench.workbench.keymap
        calls = keymap.calls(Context.PANES)
        assert {"lanes()", "pause()"} <= set(calls.values())
        assert all(a.palette for a in keymap.actions if a.id in ("lanes", "pause"))
