"""Panes on several engines: each asks its own, and what is shown is the active pane's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import TurnStatus
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.engines import Engines, NoEngineError, place_of
from dspark_tui.engines.entries import EngineEntry
from dspark_tui.paths import Paths
from dspark_tui.widgets.status_bar import StatusBar
from tests.tui.conftest import Bench, OpenBench, fast
from tests.tui.scripted_engine import ScriptedServer


def on(*engines: str, **entries: EngineEntry) -> Settings:
    """A pane for each of these engines."""
    panes = tuple(PaneParams(max_tokens=20, engine=engine) for engine in engines)
    return Settings(panes=panes, engines=entries)


def status(bench: Bench) -> str:
    return str(bench.workbench.query_one(StatusBar).render())


def lanes(bench: Bench) -> list[str]:
    return [lane.label for lane in bench.link.live.lanes]


def panel_title(bench: Bench) -> str:
    return str(bench.workbench.panel.border_title)


@asynccontextmanager
async def second_server(sockets: Path) -> AsyncIterator[EngineEntry]:
    server = ScriptedServer(fast(slots=3), sockets / "second.sock")
    await asyncio.to_thread(server.__enter__)
    try:
        yield EngineEntry(url=server.url)
    finally:
        await asyncio.to_thread(server.__exit__, None, None, None)


async def test_each_pane_asks_its_own_engine_and_the_active_pane_s_is_shown(
    open_bench: OpenBench, sockets: Path
) -> None:
    async with (
        second_server(sockets) as entry,
        open_bench(settings=on("", "second", second=entry)) as bench,
    ):
        await bench.until(lambda: "0 of 8 slots" in status(bench))
        assert panel_title(bench).startswith("batch   ")
        await bench.send("hello")
        await bench.until_idle()
        assert [bench.turn(n).status for n in (1, 2)] == [TurnStatus.DONE] * 2
        await bench.until(lambda: lanes(bench) == ["1"])
        await bench.press("escape", "2")
        await bench.until(lambda: "second  scripted-1" in status(bench))
        await bench.until(lambda: "0 of 3 slots" in status(bench))
        await bench.until(lambda: lanes(bench) == ["2"])
        await bench.until(lambda: panel_title(bench).startswith("batch of second   "))


async def test_blind_panes_on_several_engines_show_nothing_of_these(
    open_bench: OpenBench, sockets: Path
) -> None:
    async with (
        second_server(sockets) as entry,
        open_bench(settings=on("", "second", second=entry)) as bench,
    ):
        await bench.send("hello")
        await bench.until_idle()
        await bench.type("counted")
        await bench.until(lambda: "1 token" in str(bench.composer.border_subtitle))
        await bench.press("escape", "b")
        await bench.until(lambda: "blind" in status(bench))
        assert "scripted-1" not in status(bench)
        await bench.until(lambda: "token" not in str(bench.composer.border_subtitle))
        await bench.press("v")
        await bench.until(lambda: "scripted-1" in status(bench))
        await bench.until(lambda: "1 token" in str(bench.composer.border_subtitle))


async def test_an_engine_is_started_when_the_first_pane_needs_it_and_only_then() -> None:
    asked: list[str] = []

    def place(name: str) -> Server:
        asked.append(name)
        return Server(Address.parse("http://127.0.0.1:9"))

    engines = Engines(place)
    link = engines.of("one")
    assert asked == ["one"]
    engines.start()
    assert engines.of("one") is link
    engines.of("two")
    assert asked == ["one", "two"]
    await engines.close()


async def test_a_pane_s_engine_is_changed_in_its_form(open_bench: OpenBench, sockets: Path) -> None:
    async with (
        second_server(sockets) as entry,
        open_bench(settings=on("", second=entry)) as bench,
    ):
        await bench.press("f2", "tab", *"secnd", "enter")
        problem = str(bench.app.screen.query_one("#problem").render())
        assert "engine 'secnd' is not there (did you mean second?)" in problem
        await bench.press(*["backspace"] * 2, *"ond", "enter")
        assert bench.app.screen is bench.workbench
        await bench.send("hello")
        await bench.until_idle()
        assert bench.link.name == "second"
        assert bench.turn(1).status is TurnStatus.DONE


async def test_a_pane_whose_engine_is_gone_keeps_its_name_and_says_so(
    open_bench: OpenBench,
) -> None:
    settings = on("big", small=EngineEntry())
    async with open_bench(settings=settings) as bench:
        await bench.until(
            lambda: "engine 'big' is not there ([engines] has small)" in status(bench)
        )
        await bench.send("hello")
        await bench.press("escape", "E", "P", "L", "x")
        assert bench.turn(1).status is TurnStatus.WAITING
        assert bench.conversation(1).params.engine == "big"
        await bench.press("escape", "s")
        await bench.until_idle()


def test_where_an_engine_is(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "cloud": EngineEntry(url="https://host/v1", model="m", api_key_env="CLOUD_KEY"),
        "local": EngineEntry(model="some-model", max_batch=2, precision="fp32"),
    }
    settings = Settings(attach="/run/e.sock", api_key="k", engines=entries)
    assert place_of("", settings, paths) == Server(Address.parse("/run/e.sock"), "k")
    with pytest.raises(NoEngineError, match="CLOUD_KEY is not set"):
        place_of("cloud", settings, paths)
    monkeypatch.setenv("CLOUD_KEY", "secret")
    assert place_of("cloud", settings, paths) == Server(Address("https://host"), "secret", "m")
    with pytest.raises(NoEngineError, match=r"'clod' is not there \(did you mean cloud\?\)"):
        place_of("clod", settings, paths)
    commands = [
        place_of("local", settings, paths),
        place_of("", replace(settings, attach="", model="other"), paths),
    ]
    lines = [command(Path("/s")) for command in commands if not isinstance(command, Server)]
    assert [line[line.index("--model") + 1] for line in lines] == ["some-model", "other"]
    logs = [line[line.index("--log") + 1] for line in lines]
    assert logs[0].endswith("engine-local.log")
    assert logs[1] == str(paths.engine_log)
