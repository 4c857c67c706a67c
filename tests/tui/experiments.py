"""Experiments driven by keys."""

from __future__ import annotations

import csv
from pathlib import Path

from textual.widgets import Input, OptionList, Static

from dspark_tui.experiments.board import Board, State
from dspark_tui.screens.experiment import ExperimentForm
from dspark_tui.screens.experiment_grid import ExperimentGrid
from dspark_tui.widgets.grid_view import GridView
from tests.tui.conftest import Bench
from tests.tui.stage import lines

EXPERIMENT = """
[inputs]
combine = "product"
lists = { word = ["one", "two", "three"], tone = ["kind", "stern"] }
[[prompt]]
name = "short"
text = "Say {{word}}"
[[prompt]]
text = "Say {{word}}, {{tone}}"
[defaults]
max_tokens = 12
[[params]]
temperature = 0
[[params]]
temperature = 1
seed = 1
[[assert]]
contains = "droplet"
[[assert]]
contains = "{{word}}"
"""
HOLDING = EXPERIMENT.replace('"three"', '"three #hold"').replace("{{word}},", "{{word}}")
"""Its last words are never answered in full until the engine's script is told not to hold."""

SIZE = "2 prompts x 6 inputs x 2 parameter sets = 24 requests"
CELLS = 24


def write_experiment(folder: Path, text: str = EXPERIMENT) -> Path:
    path = folder / "e.toml"
    path.write_text(text)
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Experimenter:
    """The workbench with an experiment's screens over it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    # ---- the form

    async def open_form(self) -> None:
        await self.bench.press("f5")
        await self.bench.until(lambda: isinstance(self.bench.app.screen, ExperimentForm))

    async def fill(self, **fields: str | Path) -> None:
        """By field; the form has looked everything up afterwards."""
        for field, value in fields.items():
            self.form.query_one(f"#{field}", Input).value = str(value)
        await self.bench.pilot.pause()
        await self.bench.until(lambda: not self.form.workers or self.form_is_quiet)

    @property
    def form(self) -> ExperimentForm:
        assert isinstance(self.bench.app.screen, ExperimentForm)
        return self.bench.app.screen

    @property
    def form_is_quiet(self) -> bool:
        return not any(worker.node is self.form for worker in self.bench.app.workers)

    def field(self, id: str) -> str:
        return self.form.query_one(f"#{id}", Input).value

    def said(self, id: str) -> str:
        return str(self.bench.app.screen.query_one(f"#{id}", Static).content)

    def offered(self) -> list[str]:
        paths = self.form.query_one(OptionList)
        return [str(paths.get_option_at_index(n).prompt) for n in range(paths.option_count)]

    async def start(self, **fields: str | Path) -> None:
        """Fill in the form and start what it describes."""
        await self.open_form()
        await self.fill(**fields)
        await self.bench.press("enter")
        await self.bench.until(lambda: isinstance(self.bench.app.screen, ExperimentGrid))
        await self.bench.pilot.pause()

    # ---- the grid

    @property
    def view(self) -> GridView:
        grid = next(s for s in self.bench.app.screen_stack if isinstance(s, ExperimentGrid))
        return grid.query_one(GridView)

    @property
    def board(self) -> Board:
        return self.view.board

    @property
    def answered(self) -> int:
        return self.board.count(State.ANSWERED)

    async def until_answered(self, least: int = CELLS) -> None:
        await self.bench.until(lambda: self.answered >= least)

    def drawn(self) -> list[str]:
        """The grid's lines."""
        return lines(self.view)
