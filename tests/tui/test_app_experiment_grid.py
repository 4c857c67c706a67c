"""An experiment's grid: cells opened, sorted, found, rated and exported; quick however large."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from dspark_tui.batch.parts import Part
from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import PaneParams
from dspark_tui.experiments.board import Board, Entry, View
from dspark_tui.experiments.experiment import Experiment, Prompt
from dspark_tui.experiments.file import load
from dspark_tui.experiments.result_table import ResultTable
from dspark_tui.experiments.rows import RATING, RowMaker, columns_of
from dspark_tui.screens.cell import CellScreen
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.experiment_grid import ExperimentGrid
from dspark_tui.screens.export import ExportForm
from dspark_tui.widgets import grid_view
from dspark_tui.widgets.grid_view import GridView
from dspark_tui.widgets.transcript import Transcript
from tests.tui.conftest import Bench, OpenBench, slow
from tests.tui.experiments import CELLS, Experimenter, rows_of, write_experiment
from tests.tui.golden import check
from tests.tui.stage import Stage, lines

NASTY = (
    "=1+1",
    'a "quoted", cell\n\nwith lines\r\n',
    "| pipe | <b>tag</b> &amp;",
    " spaces \t",
    "",
    "光 \x1b[31mred",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def answered(here: Path) -> Path:
    """An experiment whose results are all there: nothing is asked of the engine."""
    path = write_experiment(here)
    experiment = load(path)
    maker = RowMaker(experiment, "scripted-1")
    table = ResultTable(here / "e.results.csv", columns_of(experiment))
    table.replace(maker.row(cell, _answer(cell.number)) for cell in maker.cells.values())
    return path


def _answer(number: int) -> Answer:
    text = NASTY[number % len(NASTY)] + (" droplet one two three" if number % 2 else "")
    return Answer(text=text, reason="stop", tokens=number * 7 % 24, sent=0.0, end=float(number))


async def filled_grid(bench: Bench, answered: Path) -> Experimenter:
    """The grid of that experiment, with all its answers."""
    experiment = Experimenter(bench)
    await experiment.start(file=answered)
    await experiment.until_answered()
    return experiment


def labels(view: GridView) -> list[str]:
    """The rows' values as they are shown, in order."""
    return [" ".join(view.board.inputs[row].values()) for row in view.rows]


async def test_sorting_and_filters_change_what_is_shown_and_nothing_else(
    open_bench: OpenBench, answered: Path
) -> None:
    async with open_bench() as bench:
        experiment = await filled_grid(bench, answered)
        view = experiment.view
        all_rows = labels(view)
        assert all_rows[0] == "one kind"
        await bench.press("s", "s")
        assert "sorted by most tokens" in str(view.border_title)
        assert sorted(labels(view)) == sorted(all_rows)
        assert labels(view)[0] == labels_by_tokens(view)[0]
        await bench.press("slash", *"ernx", "enter")
        assert labels(view) == []
        assert "nothing is like that" in experiment.drawn()[1]
        assert view.entry is None
        await bench.press("enter", "3", "w")
        assert isinstance(bench.app.screen, ExperimentGrid)
        await bench.press("slash", *"ern", "enter")
        assert sorted(labels(view)) == ["one stern", "three stern", "two stern"]
        await bench.press("slash", "escape", "f")
        assert "failed only" in str(view.border_title)
        await bench.press("f", "u")
        assert len(view.rows) == len(all_rows)
        await bench.press("u", "s", "s", "s")
        assert labels(view) == all_rows


def labels_by_tokens(view: GridView) -> list[str]:
    most = {
        row: max(entry.tokens or 0 for entry in view.board.entries([row]))
        for row in range(len(view.board.inputs))
    }
    rows = sorted(most, key=lambda row: -most[row])
    return [" ".join(view.board.inputs[row].values()) for row in rows]


async def test_a_cell_opens_whole_and_leads_to_its_neighbours(
    open_bench: OpenBench, answered: Path
) -> None:
    async with open_bench(size=(80, 24)) as bench:
        experiment = await filled_grid(bench, answered)
        await bench.press("down", "enter")
        screen = bench.app.screen
        assert isinstance(screen, CellScreen)
        shown = screen.query_one(Transcript)
        entry = experiment.view.entry
        assert entry is not None
        assert entry.cell.message == "Say one"
        assert "Say one" in shown.source_text()
        assert "droplet" in shown.source_text()
        assert "✓ contains one" in [line.source for line in shown._text.lines]
        await bench.press("4", "right")
        assert rows_rated(answered) == {entry.cell.number: "4"}
        other = experiment.view.entry
        assert other is not None
        assert other.cell.number == entry.cell.number + 1
        await bench.press("right", "right", "right")
        assert experiment.view.row == 2
        assert experiment.view.column == 0
        await bench.press("left", "escape")
        assert isinstance(bench.app.screen, ExperimentGrid)
        assert (experiment.view.row, experiment.view.column) == (1, 3)


def rows_rated(experiment: Path) -> dict[int, str]:
    rows = rows_of(experiment.with_name("e.results.csv"))
    return {int(row["cell"]): row[RATING] for row in rows if row[RATING]}


async def test_ratings_are_in_the_results_and_come_back(
    open_bench: OpenBench, answered: Path
) -> None:
    async with open_bench() as bench:
        experiment = await filled_grid(bench, answered)
        texts = [row["text"] for row in rows_of(answered.with_name("e.results.csv"))]
        await bench.press("5", "right", "1", "0", "right", "2")
        assert rows_rated(answered) == {1: "5", 13: "2"}
        assert [row["text"] for row in rows_of(answered.with_name("e.results.csv"))] == texts
    async with open_bench() as bench:
        experiment = await filled_grid(bench, answered)
        entry = experiment.view.entry
        assert entry is not None
        assert entry.rating == 5
        assert any("*5" in line for line in experiment.drawn())


async def test_rating_what_is_unrated_goes_on_to_what_takes_its_place(
    open_bench: OpenBench, answered: Path
) -> None:
    async with open_bench() as bench:
        experiment = await filled_grid(bench, answered)
        await bench.press("u", "down")
        for row in range(2):
            await bench.press("3", "right", "3", "right", "3", "right", "3")
            assert experiment.view.row == 2 + row
            await bench.press("left", "left", "left")
        assert "4 of 6 rows" in str(experiment.view.border_title)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".md"])
async def test_an_export_holds_every_text_exactly_and_the_ratings(
    open_bench: OpenBench, here: Path, answered: Path, suffix: str
) -> None:
    out = here / f"out{suffix}"
    async with open_bench() as bench:
        await filled_grid(bench, answered)
        await bench.press("3", "w")
        await bench.until(lambda: isinstance(bench.app.screen, ExportForm))
        bench.app.screen.query_one("#path", Input).value = str(out)
        await bench.press("enter")
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
    rows = ResultTable(out, columns_of(load(answered))).rows()
    assert {int(row["cell"]): row["text"] for row in rows} == {
        number: _answer(number).text for number in range(1, CELLS + 1)
    }
    assert [int(row["cell"]) for row in rows][:2] == [1, 2]
    assert [row["cell"] for row in rows if row[RATING]] in (["1"], [1])
    if suffix == ".jsonl":
        assert json.loads(out.read_text().split("\n")[0])[RATING] == 3


async def test_an_export_takes_what_is_shown_and_overwrites_only_when_told(
    open_bench: OpenBench, here: Path, answered: Path
) -> None:
    (here / "mine.csv").write_text("country,capital\nFrance,Paris\n")
    results = (here / "e.results.csv").read_bytes()
    async with open_bench() as bench:
        experiment = await filled_grid(bench, answered)

        async def export(name: str) -> None:
            await bench.press("w")
            await bench.until(lambda: isinstance(bench.app.screen, ExportForm))
            bench.app.screen.query_one("#path", Input).value = name
            await bench.press("enter")

        await export("e.results.csv")
        await bench.until(lambda: "choose another file" in experiment.said("problem"))
        await bench.press("escape")
        await export("missing/some.csv")
        await bench.until(lambda: experiment.said("problem").endswith("missing"))
        await bench.press("escape")
        await export("mine.csv")
        await bench.until(lambda: "is no table of results" in experiment.said("problem"))
        await bench.press("escape", "slash", *"two", "enter")
        await export("some.csv")
        await bench.until(lambda: (here / "some.csv").exists())
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
        some = {int(row["cell"]) for row in rows_of(here / "some.csv")}
        assert 0 < len(some) < CELLS
        await bench.press("slash", "escape")
        await export("some.csv")
        await bench.until(lambda: isinstance(bench.app.screen, Confirm))
        await bench.press("escape", "escape")
        assert {int(row["cell"]) for row in rows_of(here / "some.csv")} == some
        await export("some.csv")
        await bench.until(lambda: isinstance(bench.app.screen, Confirm))
        await bench.press("enter")
        await bench.until(lambda: len(rows_of(here / "some.csv")) == CELLS)
    assert (here / "mine.csv").read_text() == "country,capital\nFrance,Paris\n"
    assert (here / "e.results.csv").read_bytes() == results


async def test_an_open_cell_grows_with_its_answer(open_bench: OpenBench, here: Path) -> None:
    async with open_bench(slow(slots=1)) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(here))
        await bench.press("enter")
        assert isinstance(bench.app.screen, CellScreen)
        shown = bench.app.screen.query_one(Transcript)
        await bench.until(lambda: "Why" in shown.source_text())
        await bench.until(lambda: "┫ token limit" in drawn_text(shown))
        assert drawn_text(shown).count("Why a circle") == 1


def drawn_text(shown: Transcript) -> str:
    return "\n".join(lines(shown))


@pytest.mark.parametrize("size", [(200, 50), (120, 35), (80, 24), (60, 20)])
async def test_golden_experiment(
    open_bench: OpenBench, answered: Path, size: tuple[int, int]
) -> None:
    async with open_bench(size=size) as bench:
        experiment = Experimenter(bench)
        await experiment.open_form()
        for id in ("#file", "#results", "#size", "#problem"):
            region = experiment.form.query_one(id).region
            assert region.height > 0
            assert region.bottom <= size[1]
        await bench.press("escape")
        await experiment.start(file=answered)
        await experiment.until_answered()
        await bench.press("down", "right", "4")
        await bench.until(lambda: "complete" in experiment.said("heading"))
        await bench.pilot.pause()
        assert {cell_len(line) for line in experiment.drawn()} == {experiment.view.size.width}
        await check(bench.pilot, "experiment")


# ---- the widget alone


def large(rows: int) -> Board:
    prompts = tuple(Prompt(f"p{n}", f"{n} {{{{word}}}}") for n in range(4))
    inputs = tuple({"word": f"w{n}"} for n in range(rows))
    return Board(Experiment(prompts, inputs, (PaneParams(name="a"), PaneParams(name="b"))))


async def drawn_by(
    keys: tuple[str, ...], rows: int, monkeypatch: pytest.MonkeyPatch
) -> Counter[int]:
    """How often which cell was drawn for these moves."""
    drawn: Counter[int] = Counter()
    draw = grid_view.cell_parts

    def counted(entry: Entry, *args: Any, **named: Any) -> tuple[Part, ...]:
        drawn[entry.cell.number] += 1
        return draw(entry, *args, **named)

    view = GridView(large(rows))
    app = Stage(view)
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        monkeypatch.setattr(grid_view, "cell_parts", counted)
        for key in keys:
            await moved(pilot, view, key)
        monkeypatch.undo()
    return drawn


async def moved(pilot: Pilot[None], view: GridView, key: str) -> None:
    steps = {"down": (1, 0), "page": (view.page, 0), "end": (len(view.rows), 0), "right": (0, 1)}
    view.move(*steps[key])
    await pilot.pause()


async def test_moving_through_thousands_of_cells_draws_only_those_in_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = ("down", "page", "end", "right")
    few = await drawn_by(moves, 100, monkeypatch)
    many = await drawn_by(moves, 5000, monkeypatch)
    assert 0 < many.total() <= few.total() * 1.5
    assert len(many) < 400


async def test_the_cursor_is_always_in_sight_and_columns_come_whole() -> None:
    view = GridView(large(60))
    async with Stage(view).run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        assert view.columns_in_sight == "columns 1-2 of 8"
        for key, row, column in (("end", "60 w59", "p0 / a"), ("right", "60 w59", "p0 / b")):
            await moved(pilot, view, key)
            shown = lines(view)
            assert column in shown[0]
            assert any(row in line for line in shown)
        for _ in range(9):
            await moved(pilot, view, "right")
        assert view.columns_in_sight == "columns 7-8 of 8"
        assert "p3 / b" in lines(view)[0]
        view.show(View(text="w7"))
        assert view.row == 7
        await pilot.click(view, offset=(30, 3))
        await pilot.pause()
        assert view.row == 7
