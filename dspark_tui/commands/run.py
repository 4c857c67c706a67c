"""`dspark-tui run`: an experiment without a screen, its answers in a table."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspark_tui import config
from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.headless import HeadlessError, connected, say, stopped_by_term
from dspark_tui.paths import Paths
from dspark_tui.toml_source import FileError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from dspark_tui.commands.run_report import RunReport
    from dspark_tui.engines.client import EngineClient
    from dspark_tui.experiments.experiment import Experiment
    from dspark_tui.experiments.result_table import ResultTable, Row


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run an experiment and write its results",
        description="Ask every prompt with every input and every parameter set, all in one batch. "
        "Answers that are in the results already are not asked again.",
        epilog=in_words("run"),
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="the experiment, a TOML file")
    add(
        "--out", type=Path, metavar="FILE",
        help="the results: .csv, .jsonl or .md (default: NAME.results.csv in this folder)",
    )  # fmt: skip
    add("--dry-run", action="store_true", help="check the file, say how many cells, and stop")
    from dspark_tui.arguments import slots

    ours = {"default": argparse.SUPPRESS}  # what stands before `run` is not to be overwritten
    add("--model", metavar="M", help="folder, .gguf file, hub id or known name", **ours)
    add("--max-batch", type=slots, metavar="N", help="slots of the batch (default 8)", **ours)
    add("--attach", metavar="URL", help="ask a running server", **ours)
    add(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the engine's events to that new file, for replay",
        **ours,
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask what is missing; the exit code."""
    from dspark_tui.arguments import apply_arguments
    from dspark_tui.cli import problem_notice, start_log
    from dspark_tui.commands.outputs import OutputError, check_output
    from dspark_tui.experiments.file import load
    from dspark_tui.experiments.result_table import ResultError, ResultTable
    from dspark_tui.experiments.rows import columns_of

    paths = Paths.of_user()
    start_log(paths)
    loaded = config.load(paths.config)
    for problem in problem_notice(loaded.problems):
        say(problem)
    try:
        apply_arguments(loaded, args)
        experiment = load(args.file)
        out = args.out or Path(f"{args.file.stem}.results.csv")
        table = ResultTable(out, columns_of(experiment))
        rows = table.rows()
    except (FileError, ResultError, ValueError) as error:
        return _failed(error)
    say(experiment.size)
    if args.dry_run:
        return Exit.DONE
    engine = connected(loaded.settings, paths, args.record)
    try:
        if (code := _complete(experiment, table, rows, loaded.settings)) is not None:
            return code
        check_output("--out", table.path)
        with stopped_by_term():
            return asyncio.run(_run(experiment, table, rows, engine, loaded.settings.max_batch))
    except (HeadlessError, OutputError, ResultError) as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    say(f"dspark-tui run: {error}")
    return Exit.FAILED


def _exit_code(report: RunReport) -> int:
    if report.refused:
        return Exit.FAILED
    return Exit.NO if report.not_passed else Exit.DONE


def _complete(
    experiment: Experiment, table: ResultTable, rows: Sequence[Row], settings: config.Settings
) -> int | None:
    """The exit code where all that a worker of our own would be asked is there already: it is not
    started for that. Raises ResultError."""
    from dspark_tui.commands.run_report import RunReport
    from dspark_tui.experiments.result_table import KEY
    from dspark_tui.experiments.results import Results
    from dspark_tui.experiments.rows import RowMaker
    from engine.models.catalog import ModelError, resolve

    if settings.attach:
        return None
    try:
        maker = RowMaker(experiment, resolve(settings.model or None).name)
    except ModelError:
        return None  # the worker will say it
    if maker.cells.keys() - {row[KEY] for row in rows}:
        return None
    with RunReport(Results(maker, table, rows), table.path) as report:
        return _exit_code(report)


async def _run(
    experiment: Experiment,
    table: ResultTable,
    rows: Sequence[Row],
    engine: AbstractAsyncContextManager[EngineClient],
    slots: int,
) -> int:
    """slots: how many to ask at once where the server doesn't say. Raises HeadlessError,
    ResultError."""
    from dspark_tui.commands.run_report import RunReport
    from dspark_tui.experiments.results import Results
    from dspark_tui.experiments.rows import RowMaker
    from dspark_tui.experiments.run import run_cells, slots_of

    async with engine as client:
        maker = RowMaker(experiment, await client.first_model())
        results = Results(maker, table, rows)
        slots = await slots_of(client) or slots
        with RunReport(results, table.path) as report:
            await run_cells(client, results.missing, slots, report)
    return _exit_code(report)
