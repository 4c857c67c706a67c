"""A recording on screen: the real panel, scrubbed with keys; and its figures as plain text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from dspark_tui import cli
from dspark_tui.batch.figures import burst_figures
from dspark_tui.batch.player import Player
from dspark_tui.config import Settings
from dspark_tui.paths import Paths
from dspark_tui.replay_app import ReplayApp
from dspark_tui.widgets.batch_panel import BatchPanel
from engine.events import Event
from engine.proof.recording import Recorder, read
from tests.tui.burst import NOW, START, burst, snapshot
from tests.tui.conftest import DEADLINE, OpenBench, fast, panes
from tests.tui.stage import lines

LATER = 100.0


def moved(event: Event, seconds: float) -> Event:
    return replace(event, time=event.time + seconds)


class Playing:
    """A replay on screen and the hands to drive it."""

    def __init__(self, app: ReplayApp, player: Player, pilot: Pilot[None]) -> None:
        self.app, self.player, self.pilot = app, player, pilot

    @property
    def panel(self) -> list[str]:
        return lines(self.app.replay.query_one(BatchPanel))

    def line(self, id: str) -> str:
        return str(self.app.replay.query_one(f"#{id}", Static).content)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            await self.pilot.pause(0.02)


@asynccontextmanager
async def playing(
    paths: Paths,
    events: list[Event],
    speed: float = 1.0,
    size: tuple[int, int] = (120, 35),
    paused: bool = True,
) -> AsyncIterator[Playing]:
    player = Player(events, speed)
    player.playing = not paused
    app = ReplayApp("run.jsonl", player, burst_figures(events), Settings(), paths)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Playing(app, player, pilot)
    assert app.failure == ""


async def test_the_end_shows_what_the_live_panel_showed(paths: Paths) -> None:
    async with playing(paths, burst()) as replay:
        await replay.press("end")
        text = "\n".join(replay.panel)
        assert "r1  1 control" in text
        assert "60.0 tok/s aggregate" in text
        assert "14.5 of 14.5 s" in replay.line("position")
        assert "870 tok / 14.50 s = 60.0 tok/s" in replay.line("verdict")
        assert "inconclusive: All 3 ran together" in replay.line("verdict")


async def test_arrows_scrub_and_home_goes_back(paths: Paths) -> None:
    async with playing(paths, burst()) as replay:
        await replay.press(*["right"] * 25)
        assert replay.player.now == pytest.approx(START + 7.25)
        assert any(line.startswith("r2") and "6.7" in line for line in replay.panel)
        await replay.press(*["left"] * 5)
        assert replay.player.now == pytest.approx(START + 5.8)
        assert not any(line.startswith("r2") and "6.7" in line for line in replay.panel)
        await replay.press("home")
        assert replay.player.now == START
        assert not any(line.startswith("r4") for line in replay.panel)


async def test_it_plays_by_itself_at_its_speed_and_pauses_at_the_end(paths: Paths) -> None:
    async with playing(paths, burst(), speed=100, paused=False) as replay:
        await replay.until(lambda: replay.player.at_end)
        await replay.until(lambda: "at the end" in replay.line("position"))
        assert not replay.player.playing


async def test_space_pauses_and_goes_on(paths: Paths) -> None:
    async with playing(paths, burst(), paused=False) as replay:
        await replay.until(lambda: replay.player.now > START)
        await replay.press("space")
        stopped = replay.player.now
        assert "paused" in replay.line("position")
        await replay.pilot.pause(0.3)
        assert replay.player.now == stopped
        await replay.press("space")
        await replay.until(lambda: replay.player.now > stopped)


async def test_brackets_go_from_burst_to_burst(paths: Paths) -> None:
    again = [*burst(), *(moved(event, LATER) for event in burst())]
    async with playing(paths, again) as replay:
        assert "burst 1 of 2" in replay.line("verdict")
        await replay.press("right_square_bracket")
        assert replay.player.now == START + LATER
        assert "burst 2 of 2" in replay.line("verdict")
        await replay.press("left_square_bracket")
        assert replay.player.now == START


async def test_plus_and_minus_change_the_speed(paths: Paths) -> None:
    async with playing(paths, burst()) as replay:
        await replay.press("plus", "plus", "minus")
        assert replay.player.speed == 2.0
        assert "speed 2" in replay.line("position")


@pytest.mark.parametrize("key", ["q", "escape", "ctrl+c", "ctrl+q"])
async def test_every_way_out_leads_out(paths: Paths, key: str) -> None:
    async with playing(paths, burst()) as replay:
        await replay.press(key)
        await replay.until(lambda: not replay.app.is_running)


@pytest.mark.parametrize("size", [(1, 1), (20, 6), (60, 20), (200, 50)])
async def test_any_size_will_do(paths: Paths, size: tuple[int, int]) -> None:
    async with playing(paths, burst(), size=size) as replay:
        await replay.press("end")
        await replay.pilot.resize_terminal(100, 30)
        await replay.pilot.pause()
        assert any(line.startswith("r1") for line in replay.panel)


async def test_a_recording_without_requests_says_so(paths: Paths) -> None:
    async with playing(paths, [snapshot()]) as replay:
        assert "nothing was sent" in replay.line("verdict")
        assert "at the end" in replay.line("position")


def test_without_a_terminal_the_figures_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        for event in burst():
            recorder.write(event)
    assert cli.main(["replay", str(path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "burst 1: 6 requests, at most 4 in one step" in printed
    assert "aggregate 60.0 tok/s = 870 tok / 14.50 s" in printed
    assert "verdict inconclusive" in printed
    assert next(line for line in printed if line.startswith("r2")).split() == [
        *("r2", "2", "terse", "0.00", "0.50", "6.70", "105", "16.9")
    ]
    waiting = next(line for line in printed if line.startswith("r6"))
    assert waiting.split()[3:] == [f"{NOW - START - 13:.2f}", "-", "cut", "off", "0", "-"]


async def test_what_was_still_running_is_cut_off_at_the_end(paths: Paths, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        for event in burst():
            recorder.write(event)
    async with playing(paths, list(read(path).events), size=(120, 30)) as replay:
        await replay.press("left")
        assert not any("cut off" in line for line in replay.panel)
        await replay.press("end")
        assert not replay.player.state.active
        assert any("r3 r4 r5 r6 cut off: the recording" in line for line in replay.panel)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["missing"], 1, "can't read missing"),
        (["missing", "--speed", "0"], 2, "above 0"),
        (["missing", "--speed", "fast"], 2, "above 0"),
        (["missing", "--speed", "nan"], 2, "above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    line: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = cli.main(["replay", *line])
    except SystemExit as end:
        ended = int(end.code or 0)
    assert ended == code
    assert words in capsys.readouterr().err


async def test_what_the_workbench_recorded_gives_the_figures_it_showed(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        async with open_bench(fast(), settings=panes(3)) as bench:
            await bench.until(lambda: bench.workbench.link.ready.is_set())
            bench.workbench.link.on_event = recorder.write
            await bench.send("one two three")
            await bench.until(lambda: len(bench.workbench.link.live.lanes) == 3)
            await bench.until_idle()
            await bench.until(lambda: not bench.workbench.link.live.active)
            live = bench.workbench.link.live
            shown = live.aggregate(0.0), live.lanes, live.widths.samples, list(live.notices)
    player = Player(read(path).events)
    player.seek(player.end)
    state = player.state
    assert shown == (state.aggregate(0.0), state.lanes, state.widths.samples, list(state.notices))
    (figures,) = burst_figures(read(path).events)
    assert (figures.aggregate, list(figures.lanes)) == shown[:2]
