"""`dspark-tui bench`: is a server really batching? By a stopwatch, with the reasons shown."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from rich.console import Console, RenderableType

from dspark_tui.appearance.glyphs import ASCII, DEFAULT, Glyphs
from dspark_tui.commands.bench_flips import flip_rows, flipped
from dspark_tui.commands.bench_order import PROBE_NAMES, STDOUT, BenchError, Order, shown_command
from dspark_tui.commands.bench_progress import Progress
from dspark_tui.commands.bench_run import examined
from dspark_tui.commands.bench_text import comparison_rows, report_rows
from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.paths import Paths, tilde, write_atomically
from engine.proof.report import Report
from engine.proof.svg import picture
from engine.proof.verdict import ENOUGH_TOKENS, Name
from engine.server.options import PRECISIONS

log = logging.getLogger(__name__)

PIPE_WIDTH = 100
"""Columns of the report where nobody's terminal says otherwise."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="find out by completion times whether a server batches",
        description="Send equal requests together and time their ends from outside.",
        epilog=in_words("bench"),
    )
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="a server; without one, a worker is started here")
    add("--n", default="1,2,4,8", metavar="N,…", help="requests at once (default 1,2,4,8)")
    add(
        "--tokens",
        default="128",
        metavar="T",
        help=f"of each answer, from {ENOUGH_TOKENS} on (default 128)",
    )
    add("--repeat", default="3", metavar="R", help="times each width is run (default 3)")
    add("--probes", default="all", metavar="P,…", help=f"all, none, or some of {PROBE_NAMES}")
    add("--model", metavar="M", help="as the server calls it (default: the first it lists)")
    add("--seed", type=int, metavar="S", help="send this seed with every request")
    add("--api-key", metavar="KEY", help="default: $DSPARK_API_KEY")
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="repeatable")
    add("--timeout", default="600", metavar="S", help="seconds a request may take (default 600)")
    add("--max-batch", metavar="N", help="slots of a worker started here (default 8)")
    add("--precision", choices=PRECISIONS, help="of that worker's weights (default auto)")
    add(
        "--flips",
        action="store_true",
        help="instead, count greedy tokens that differ between a request alone and in a batch",
    )
    add("--json", metavar="FILE", help="write the report as JSON too; - for standard output")
    add("--svg", metavar="FILE", help="write the lanes as a picture too")
    add(
        "--record",
        metavar="FILE",
        help="write the server's events to that new file, for dspark-tui replay",
    )
    add("--compare", nargs=2, metavar=("A", "B"), help="show two JSON reports side by side")
    add("--schema", action="store_true", help="print the JSON schema of the report and exit")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The exit code; INTERRUPTED only where there is nothing to tell yet."""
    from dspark_tui.cli import start_log

    start_log(Paths.of_user())
    try:
        if args.schema:
            print(json.dumps(Report.model_json_schema(), indent=1))
            return Exit.DONE
        if args.compare:
            return _compare(*map(Path, args.compare))
        return _bench(Order.of(args), args)
    except BenchError as error:
        _say(str(error))
        return Exit.FAILED
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # below the ^C that a terminal shows
        _say("stopped before anything was measured")
        return Exit.INTERRUPTED


def exit_code(report: Report) -> int:
    """What scripts go by."""
    return code_of(report.verdict) if report.usable_requests else Exit.FAILED


def code_of(verdict: Name) -> Exit:
    match verdict:
        case Name.BATCHED:
            return Exit.DONE
        case Name.INCONCLUSIVE | Name.MIXED:
            return Exit.UNUSABLE
        case _:
            return Exit.NO


def _bench(order: Order, args: argparse.Namespace) -> int:
    if args.flips:
        return _flips(order, args)
    stderr = Console(stderr=True)
    with Progress(stderr, order.plan, _glyphs(stderr)) as progress:
        report = asyncio.run(examined(order, shown_command(sys.argv[1:]), progress))
    if not report.usable_requests:
        if not report.failures:
            raise KeyboardInterrupt  # it came before any request was done
        _say(f"no usable answer: {report.failures[0]}")
    _publish(report, args.json, args.svg)
    return exit_code(report)


def _flips(order: Order, args: argparse.Namespace) -> int:
    stderr = Console(stderr=True)
    with Progress(stderr, order.plan, _glyphs(stderr)) as progress:
        report = asyncio.run(flipped(order, shown_command(sys.argv[1:]), progress))
    _show(report, flip_rows(report), args.json)
    return Exit.DONE


def _publish(report: Report, json_file: str | None, svg_file: str | None) -> None:
    """Show it and write the files that were asked for. Raises BenchError when one can't be."""
    stdout = _stdout()
    _show(report, report_rows(report, stdout.width, _glyphs(stdout)), json_file)
    if svg_file:
        _write(Path(svg_file), picture(report))


def _show(report: BaseModel, rows: Iterable[RenderableType], json_file: str | None) -> None:
    document = report.model_dump_json(indent=1) + "\n"
    if json_file == STDOUT:
        sys.stdout.write(document)
        return
    stdout = _stdout()
    for row in rows:
        stdout.print(row)
    if json_file:
        _write(Path(json_file), document)


def _compare(first: Path, second: Path) -> int:
    reports = _read(first), _read(second)
    stdout = _stdout()
    for row in comparison_rows(*reports):
        stdout.print(row)
    return Exit.DONE


def _read(path: Path) -> Report:
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BenchError(f"{tilde(path)} can't be read: {error.strerror or error}") from None
    except ValidationError as error:
        log.info("%s: %s", path, error)
        raise BenchError(f"{tilde(path)} is no report of `bench --json`") from None


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise BenchError(f"{tilde(path)} can't be written: {error.strerror or error}") from None


def _stdout() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _glyphs(console: Console) -> Glyphs:
    return DEFAULT if console.encoding.lower().startswith("utf") else ASCII


def _say(line: str) -> None:
    print(f"dspark-tui bench: {line}", file=sys.stderr)
