"""--ascii: everything the workbench draws by itself is 7-bit, in every state and dialog."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.app import App

from dspark_tui.batch.figures import burst_figures
from dspark_tui.batch.player import Player
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import TurnStatus
from dspark_tui.paths import Paths
from dspark_tui.replay_app import ReplayApp
from dspark_tui.screens.cell import CellScreen
from dspark_tui.screens.experiment_grid import ExperimentGrid
from tests.tui.burst import burst
from tests.tui.conftest import ENDLESS, OpenBench, fast, panes, slow
from tests.tui.experiments import Experimenter, write_experiment

LONG = PaneParams(name="a name that is too long for any title", max_tokens=20, system="s" * 90)


def other_signs(app: App[None]) -> str:
    """What is on screen and not 7-bit."""
    drawn = re.sub(r"<style.*?</style>|<title.*?</title>", "", app.export_screenshot(),
                   flags=re.DOTALL)  # fmt: skip
    text = "".join(html.unescape(part) for part in re.findall(r">([^<]+)<", drawn))
    return "".join(sorted({sign for sign in text if not sign.isascii()} - {"\xa0"}))


@pytest.mark.parametrize("size", [(120, 35), (80, 24), (60, 20), (50, 15), (19, 5)])
async def test_at_every_size_and_in_every_state(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    settings = replace(panes(1), panes=(PaneParams(max_tokens=60), LONG, LONG), ascii=True)
    async with open_bench(fast(slots=1), size=size, settings=settings) as bench:
        assert other_signs(bench.app) == ""
        await bench.send("one line\nand " + "many words " * 20)
        await bench.until(lambda: bench.turn(1).answer)
        assert other_signs(bench.app) == ""
        await bench.press("escape", "2", "i")
        await bench.send("#fail")
        await bench.until_idle()
        await bench.pilot.pause()
        assert other_signs(bench.app) == ""
        await bench.press("escape", *["k"] * 5, "f3")
        await bench.pilot.pause()
        assert other_signs(bench.app) == ""


TYPING = [["f1"], ["f2"], ["f5"], ["ctrl+p"], ["ctrl+p", "z"], ["ctrl+r"]]
IN_PANES = [[key] for key in ("Y", "O", "B", "d", "w", "R", "x", "slash")] + [["K", "enter"]]


@pytest.mark.parametrize("size", [(120, 35), (60, 20)])
async def test_in_every_dialog(open_bench: OpenBench, size: tuple[int, int]) -> None:
    settings = replace(panes(2, max_tokens=70), ascii=True)
    async with open_bench(size=size, settings=settings) as bench:
        await bench.send("#code " + "and many words " * 20)
        await bench.until_idle()
        for keys in (*TYPING, *(["escape", *keys] for keys in IN_PANES)):
            await bench.press(*keys)
            await bench.until(lambda: bench.app.screen is not bench.workbench)
            await bench.pilot.pause()
            assert other_signs(bench.app) == "", keys
            while bench.app.screen is not bench.workbench:
                await bench.press("escape")
                await bench.pilot.pause()
            await bench.press("i")
        await bench.press("escape", "L")
        assert other_signs(bench.app) == ""


async def test_in_an_experiment(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_experiment(tmp_path)
    async with open_bench(settings=replace(panes(2), ascii=True)) as bench:
        experiment = Experimenter(bench)
        await experiment.open_form()
        await bench.until(lambda: "e.toml" in experiment.offered())
        await bench.press("e", "full_stop", "tab", "enter")
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
        await bench.until(lambda: not bench.workbench.experiment_runs)
        assert other_signs(bench.app) == ""
        await bench.press("enter")
        await bench.until(lambda: isinstance(bench.app.screen, CellScreen))
        assert other_signs(bench.app) == ""


async def test_while_a_recording_is_played(paths: Paths) -> None:
    player = Player(burst(), 1.0)
    app = ReplayApp("run.jsonl", player, burst_figures(burst()), Settings(ascii=True), paths)
    async with app.run_test(size=(120, 35)) as pilot:
        for key in ("space", "right", "end"):
            await pilot.press(key)
            await pilot.pause()
            assert other_signs(app) == ""


async def test_when_it_asks(open_bench: OpenBench) -> None:
    async with open_bench(slow(), settings=replace(ENDLESS, ascii=True)) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.RUNNING)
        await bench.press("ctrl+q")
        assert other_signs(bench.app) == ""
