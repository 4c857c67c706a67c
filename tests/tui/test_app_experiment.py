"""Experiments in the workbench: set up, run, stopped, resumed, and the same as without a screen."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from textual.widgets import Static

from dspark_tui.conversation.answer import Answer
from dspark_tui.experiments.board import State
from dspark_tui.experiments.file import load
from dspark_tui.experiments.result_table import ResultTable
from dspark_tui.experiments.rows import RowMaker, columns_of
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.experiment import ExperimentForm
from dspark_tui.screens.experiment_grid import ExperimentGrid
from dspark_tui.widgets.batch_panel import BatchPanel
from tests.tui.conftest import OpenBench, fast, panes, slow
from tests.tui.experiments import (
    CELLS,
    HOLDING,
    SIZE,
    Experimenter,
    rows_of,
    write_experiment,
)
from tests.tui.script import PROSE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Experiments are run in a folder of their own."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


async def test_a_file_is_found_by_its_first_letters_counted_and_run(
    open_bench: OpenBench, here: Path
) -> None:
    write_experiment(here)
    (here / "ends.jsonl").touch()
    async with open_bench(fast()) as bench:
        experiment = Experimenter(bench)
        await experiment.open_form()
        await bench.until(lambda: experiment.offered() == ["e.toml", "ends.jsonl"])
        await bench.press("e", "full_stop", "tab")
        await bench.until(lambda: experiment.said("size") == SIZE)
        assert experiment.field("file") == "e.toml"
        assert experiment.field("results") == "e.results.csv"
        assert not (here / "e.results.csv").exists()
        await bench.press("enter")
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
        await experiment.until_answered()
        await bench.until(lambda: "complete" in experiment.said("heading"))
        assert "24 of 24" in experiment.said("heading")
        assert "24 fail" in experiment.said("heading")
    rows = rows_of(here / "e.results.csv")
    assert sorted(int(row["cell"]) for row in rows) == list(range(1, CELLS + 1))
    assert all(PROSE.startswith(row["text"]) for row in rows)


async def test_the_arrows_choose_a_file_too(open_bench: OpenBench, here: Path) -> None:
    write_experiment(here)
    (here / "folder").mkdir()
    (here / "folder" / "t.csv").write_text("a\n1\n")
    async with open_bench() as bench:
        experiment = Experimenter(bench)
        await experiment.open_form()
        await bench.until(lambda: experiment.offered() == ["e.toml", "folder/"])
        await bench.press("down", "down", "enter")
        await bench.until(lambda: experiment.offered() == ["folder/t.csv"])
        await bench.press("tab")
        assert experiment.field("file") == "folder/t.csv"
        await bench.press("escape")
        assert bench.app.screen is bench.workbench


async def test_the_same_file_gives_the_same_rows_as_without_a_screen(
    open_bench: OpenBench, here: Path
) -> None:
    path = write_experiment(here)
    async with open_bench(fast()) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=path, results="grid.csv")
        await experiment.until_answered()
        assert bench.server is not None
        words = ["run", str(path), "--attach", bench.server.url, "--out", "headless.csv"]
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "dspark_tui", *words)
        assert await process.wait() == 3
    measured = ("ttft", "seconds", "cached_tokens")
    grid, headless = (
        sorted(
            [{k: v for k, v in row.items() if k not in measured} for row in rows_of(here / name)],
            key=lambda row: int(row["cell"]),
        )
        for name in ("grid.csv", "headless.csv")
    )
    assert grid == headless
    assert len(grid) == CELLS


async def test_every_slot_is_busy_and_the_panel_shows_it(open_bench: OpenBench, here: Path) -> None:
    async with open_bench(fast(slots=4)) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(here, HOLDING))
        assert bench.server is not None
        engine = bench.server.engine
        await bench.until(lambda: len(engine.running) == 4 and engine.queue)
        assert len(engine.running) + len(engine.queue) <= 6
        running = experiment.board.count(State.RUNNING)
        assert running <= 6
        panel = bench.app.screen.query_one(BatchPanel)
        await bench.until(lambda: "4 of 4 slots busy" in str(panel.border_title))
        await bench.until(lambda: any("> ## Why" in line for line in experiment.drawn()))


@pytest.mark.parametrize("keys", [(), ("escape", "2"), ("escape", "L")], ids=" ".join)
async def test_esc_leads_back_to_where_the_keys_went(
    open_bench: OpenBench, here: Path, keys: tuple[str, ...]
) -> None:
    async with open_bench(fast()) as bench:
        await bench.until(lambda: bench.link.ready.is_set())
        await bench.press(*keys)
        before = bench.workbench.focused
        await Experimenter(bench).start(file=write_experiment(here))
        await bench.press("escape")
        assert bench.app.screen is bench.workbench
        assert bench.workbench.focused is before
        await bench.press("f5", "enter", "escape", "slash", "x", "enter", "escape")
        assert bench.app.screen is bench.workbench
        assert bench.workbench.focused is before


async def test_stopping_keeps_what_is_done_and_resuming_asks_for_the_rest(
    open_bench: OpenBench, here: Path
) -> None:
    out = here / "new" / "r.csv"
    async with open_bench(fast(slots=2)) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(here, HOLDING), results=out)
        await experiment.until_answered(3)
        await bench.press("ctrl+c")
        await bench.until(lambda: "stopped, r resumes" in experiment.said("heading"))
        kept = rows_of(out)
        assert 3 <= len(kept) < CELLS
        assert experiment.board.count(State.WAITING) == CELLS - len(kept)
        assert bench.server is not None
        engine = bench.server.engine
        await bench.until(lambda: not engine.running and not engine.queue)
        bench.server.script.holding = False
        await bench.press("r")
        await experiment.until_answered()
    assert rows_of(out)[: len(kept)] == kept
    assert len(rows_of(out)) == CELLS


async def test_after_a_crash_only_what_is_missing_is_asked(
    open_bench: OpenBench, here: Path
) -> None:
    path, out = write_experiment(here), here / "e.results.csv"
    experiment = load(path)
    table, maker = ResultTable(out, columns_of(experiment)), RowMaker(experiment, "scripted-1")
    table.replace([])
    for cell in list(maker.cells.values())[:20]:
        table.append(maker.row(cell, Answer(text=f"kept {cell.number}", reason="stop")))
    out.write_bytes(out.read_bytes()[:-9])  # the last row was being written
    async with open_bench(fast()) as bench:
        runs = Experimenter(bench)
        await runs.start(file=path)
        await runs.until_answered()
    texts = {int(row["cell"]): row["text"] for row in rows_of(out)}
    assert [texts[number] for number in range(1, 20)] == [f"kept {n}" for n in range(1, 20)]
    assert all(PROSE.startswith(texts[number]) for number in range(20, CELLS + 1))
    assert len(rows_of(out)) == CELLS


async def test_the_draft_runs_for_each_row_of_a_table_with_the_panes_parameters(
    open_bench: OpenBench, here: Path
) -> None:
    (here / "t.csv").write_text('word,tone\none,"kind, really"\ntwo,stern\n')
    async with open_bench(fast(), settings=panes(2, max_tokens=5)) as bench:
        await bench.type("Say {{word}} {{tone}}")
        experiment = Experimenter(bench)
        await experiment.open_form()
        await experiment.fill(file="t.csv")
        count = "1 prompt x 2 inputs x 2 parameter sets = 4 requests"
        await bench.until(lambda: experiment.said("size") == count)
        experiment.form.query_one("#combine").focus()
        await bench.press("space")
        count = "1 prompt x 4 inputs x 2 parameter sets = 8 requests"
        await bench.until(lambda: experiment.said("size") == count)
        await bench.press("enter")
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
        await experiment.until_answered(8)
        assert experiment.board.columns == ["1", "2"]
    rows = rows_of(here / "t.results.csv")
    assert {row["input.tone"] for row in rows} == {"kind, really", "stern"}
    assert {row["tokens"] for row in rows} == {"5"}


async def test_a_draft_without_variables_needs_no_table(open_bench: OpenBench, here: Path) -> None:
    async with open_bench(fast()) as bench:
        await bench.type("hello")
        experiment = Experimenter(bench)
        await experiment.start(results="hello.jsonl")
        await experiment.until_answered(2)
    assert (here / "hello.jsonl").read_text().count("\n") == 2


MISTAKES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("", {}, "draft: is empty: choose an experiment, or type a prompt first"),
    ("{{wrd}}", {"file": "t.csv"}, "t.csv: text names {{wrd}}, which no input has"),
    ("{{word}}", {}, "draft: text names {{word}}, which no input has (there are no inputs)"),
    ("hi", {"file": "empty.csv"}, "empty.csv: has no rows"),
    ("hi", {"file": "none.toml"}, "none.toml: can't be read: No such file or directory"),
    ("hi", {"file": "notes.md"}, "notes.md: is neither an experiment (.toml) nor a table"),
    ("hi", {"file": "bad.toml"}, "bad.toml:2: txt is not known here (did you mean text?)"),
    ("hi", {"results": "r.xlsx"}, "r.xlsx must end in one of .csv, .jsonl, .md"),
    ("hi", {"results": "t.csv"}, "t.csv is no table of results"),
)


async def test_what_is_wrong_is_said_in_one_line_and_nothing_is_lost(
    open_bench: OpenBench, here: Path
) -> None:
    (here / "t.csv").write_text("word\none\n")
    (here / "empty.csv").write_text("word\n")
    (here / "bad.toml").write_text('[[prompt]]\ntxt = "x"\n')
    (here / "notes.md").touch()
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    async with open_bench() as bench:
        experiment = Experimenter(bench)
        for draft, fields, line in MISTAKES:
            bench.composer.put(draft)
            await experiment.open_form()
            await experiment.fill(**fields)
            await bench.press("enter")
            await bench.until(lambda line=line: experiment.said("problem").startswith(line))
            assert "\n" not in experiment.said("problem")
            assert {id: experiment.field(id) for id in fields} == fields
            await bench.press("escape")
            assert bench.app.screen is bench.workbench
            assert bench.composer.text == draft
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


async def test_draft_and_caret_survive_and_the_experiment_goes_on_behind_the_workbench(
    open_bench: OpenBench, here: Path
) -> None:
    async with open_bench(fast(slots=2)) as bench:
        await bench.type("a draft")
        bench.composer.move_cursor((0, 3))
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(here, HOLDING))
        await bench.press("escape")
        assert bench.app.screen is bench.workbench
        assert (bench.composer.text, bench.composer.cursor_location) == ("a draft", (0, 3))
        assert bench.composer.has_focus
        assert bench.notices() == ["the experiment goes on; F5 shows it"]
        out = here / "e.results.csv"
        await bench.until(lambda: len(rows_of(out)) >= 2)
        await bench.press("escape", "t")
        assert isinstance(bench.app.screen, ExperimentGrid)
        assert experiment.answered >= 2
        await bench.press("n")
        assert isinstance(bench.app.screen, ExperimentGrid)
        await bench.press("ctrl+c")
        await bench.until(lambda: "stopped" in experiment.said("heading"))
        await bench.press("n")
        assert isinstance(bench.app.screen, ExperimentForm)


async def test_another_prompt_in_the_composer_is_another_experiment_once_the_last_is_complete(
    open_bench: OpenBench, here: Path
) -> None:
    async with open_bench(fast()) as bench:
        await bench.type("a river")
        experiment = Experimenter(bench)
        await experiment.start(results=here / "first.csv")
        await bench.until(lambda: "complete" in experiment.said("heading"))
        await bench.press("escape", "f5")
        assert isinstance(bench.app.screen, ExperimentGrid)
        await bench.press("escape")
        await bench.type("a lake")
        await bench.press("f5")
        assert isinstance(bench.app.screen, ExperimentForm)


async def test_quitting_asks_while_an_experiment_runs_and_it_follows_into_another_session(
    open_bench: OpenBench, here: Path
) -> None:
    async with open_bench(fast(slots=1)) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(here, HOLDING))
        await bench.press("ctrl+q")
        assert isinstance(bench.app.screen, Confirm)
        assert "An experiment is running" in str(bench.app.screen.query_one(Static).content)
        await bench.press("escape", "escape")
        old = bench.workbench
        await bench.app.workbench.run_action("screen.new_session")
        await bench.until(lambda: bench.workbench is not old and bench.workbench.is_current)
        await bench.press("f5")
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
        await bench.press("ctrl+c")
        await bench.until(lambda: "stopped" in experiment.said("heading"))
        await bench.press("escape", "ctrl+q")
        await bench.until(lambda: bench.app._exit)


async def test_a_cell_that_is_refused_says_why_and_is_asked_again(
    open_bench: OpenBench, here: Path
) -> None:
    path = here / "e.toml"
    path.write_text(
        '[inputs]\nlists = {word = ["hi", "#fail"]}\n[[prompt]]\ntext = "{{word}}"\n'
        "[defaults]\nmax_tokens = 9\n"
    )
    async with open_bench(fast()) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=path)
        await bench.until(lambda: "1 refused" in experiment.said("heading"))
        await bench.press("f")
        await bench.until(lambda: any("! the script says" in line for line in experiment.drawn()))
        assert "the script says this row fails" in experiment.said("detail")
        assert len(rows_of(here / "e.results.csv")) == 1
        await bench.press("r")
        await bench.until(lambda: "1 refused" in experiment.said("heading"))


async def test_a_results_file_that_fails_stops_the_experiment_in_one_line(
    open_bench: OpenBench, here: Path
) -> None:
    out = here / "r.csv"
    async with open_bench(slow(slots=1)) as bench:
        experiment = Experimenter(bench)
        await experiment.start(file=write_experiment(here), results=out)
        await bench.until(out.exists)
        out.unlink()
        out.mkdir()
        await bench.until(
            lambda: "r.csv can't be written: Is a directory" in experiment.said("heading")
        )
        assert "r resumes" in experiment.said("heading")
        out.rmdir()
        await bench.press("r")
        await experiment.until_answered(2)
    assert len(rows_of(out)) >= 2
