"""Leaving: what runs and would be lost is asked about once, whatever is on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.quitting import QUESTION
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, fast
from tests.tui.experiments import HOLDING, Experimenter, write_experiment
from tests.tui.golden import screen_text
from tests.tui.sheets import shown


async def answering(bench: Bench) -> None:
    await bench.send("run on")
    await bench.until(lambda: bench.turn(1).answer)
    await bench.press("escape")


def question(bench: Bench) -> str:
    return shown(bench, "Static")


@pytest.mark.parametrize("keys", ["f1", "f2", "f5", "O", "B", "R", "W", "d", "colon", "L", "z"])
async def test_on_every_screen_it_is_asked_and_esc_goes_back_there(
    open_bench: OpenBench, keys: str
) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await answering(bench)
        await bench.press(keys)
        before = bench.app.screen
        await bench.press("ctrl+q")
        assert question(bench) == "2 panes are answering. Quit all the same?"
        await bench.press("escape")
        assert bench.app.screen is before
        await bench.press("ctrl+q", "ctrl+q")
        await bench.until(lambda: bench.app._exit)


@pytest.mark.parametrize("size", [(60, 20), (40, 20)])
async def test_a_question_is_whole_however_narrow_the_screen_is(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(calm(), size=size) as bench:
        question = "Pane 1 control is answering. Close it all the same?"
        await bench.app.push_screen(Confirm(question, "close"))
        await bench.pilot.pause()
        words = screen_text(bench.pilot).translate({ord(border): " " for border in "│┃"})
        assert question in " ".join(words.split())


async def test_another_question_is_not_taken_for_this_one(open_bench: OpenBench) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await answering(bench)
        await bench.press("x")
        assert isinstance(bench.app.screen, Confirm)
        await bench.press("ctrl+q")
        assert bench.app.screen.id == QUESTION
        await bench.press("enter")
        await bench.until(lambda: bench.app._exit)
        assert len(bench.workbench.session.panes) == 2


async def test_all_that_runs_is_in_the_one_question(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_bench(fast(slots=2), settings=ENDLESS) as bench:
        await bench.press("ctrl+t")
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(tmp_path, HOLDING))
        await bench.press("ctrl+q")
        assert question(bench) == "An experiment is running. Quit all the same?"
        await bench.press("escape", "escape")
        await bench.send("run on #hold")
        await bench.press("tab")
        await bench.type("over and over #hold")
        await bench.press("escape", "K", "enter", "ctrl+q")
        assert question(bench) == (
            "One pane is answering, and a prompt is being repeated, and an experiment is running."
            " Quit all the same?"
        )
        await bench.press("y")
        await bench.until(lambda: bench.app._exit)
