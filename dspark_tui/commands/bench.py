"""`dspark-tui bench`: is a server really batching? By a stopwatch, with the reasons shown."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import platform
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspark_tui import __version__
from dspark_tui.address import Address
from dspark_tui.paths import Paths, tilde, write_atomically

if TYPE_CHECKING:
    from rich.console import Console

    from dspark_tui.commands.bench_progress import Progress
    from dspark_tui.glyphs import Glyphs
    from engine.proof.endpoint import Endpoint, Target
    from engine.proof.probes import Examination, Plan
    from engine.proof.report import Report

log = logging.getLogger(__name__)

BATCHED, FAILED, UNTOLD, NOT_BATCHED = 0, 1, 2, 3
PIPE_WIDTH = 100
"""Columns of the report where nobody's terminal says otherwise."""
WIDEST = 256


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="find out by completion times whether a server batches",
        description="Send equal requests together and time their ends from outside. Exit code: "
        "0 batched, 3 not, 2 could not tell, 1 error.",
    )
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="a server; without one, a worker is started here")
    add("--n", default="1,2,4,8", metavar="N,…", help="requests at once (default 1,2,4,8)")
    add("--tokens", default="128", metavar="T", help="length of each answer (default 128)")
    add("--repeat", default="3", metavar="R", help="times each width is run (default 3)")
    add("--probes", default="all", metavar="P,…", help="all, none, or names from: " + PROBE_NAMES)
    add("--model", metavar="M", help="as the server calls it (default: the first it lists)")
    add("--seed", type=int, metavar="S", help="send this seed with every request")
    add("--api-key", metavar="KEY", help="default: $DSPARK_API_KEY")
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="repeatable")
    add("--timeout", default="600", metavar="S", help="seconds a request may take (default 600)")
    add("--max-batch", default="8", metavar="N", help="slots of a worker started here (default 8)")
    add("--json", metavar="FILE", help="write the report as JSON too; - for standard output")
    add("--svg", metavar="FILE", help="write the lanes as a picture too")
    add("--record", metavar="FILE", help="write the server's events too, for dspark-tui replay")
    add("--compare", nargs=2, metavar=("A", "B"), help="show two JSON reports side by side")
    add("--schema", action="store_true", help="print the JSON schema of the report and exit")
    parser.set_defaults(run=run)


PROBE_NAMES = "staggered, mixed, join, release, prefix, context"


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 batched, 3 not, 2 could not tell, 1 error with one line on stderr."""
    from engine.proof.report import Report

    try:
        if args.schema:
            print(json.dumps(Report.model_json_schema(), indent=1))
            return BATCHED
        if args.compare:
            return _compare(*map(Path, args.compare))
        return asyncio.run(_bench(_Order.of(args)))
    except BenchError as error:
        print(f"dspark-tui bench: {error}", file=sys.stderr)
        return FAILED


class BenchError(Exception):
    """Nothing to report. `str()` is one line for the person."""


@dataclass(frozen=True)
class _Order:
    """What was asked for. address None: a worker of our own."""

    args: argparse.Namespace
    plan: Plan
    address: Address | None
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float = 600.0
    max_batch: int = 8

    @classmethod
    def of(cls, args: argparse.Namespace) -> _Order:
        """Raises BenchError naming the option that makes no sense."""
        try:
            return cls(
                args=args,
                plan=_plan(args),
                address=Address.parse(args.url) if args.url else None,
                headers=_headers(args),
                timeout=float(_number("--timeout", args.timeout, 86_400)),
                max_batch=_number("--max-batch", args.max_batch, WIDEST),
            )
        except ValueError as error:
            raise BenchError(str(error)) from None

    @property
    def api_key(self) -> str | None:
        key: str | None = self.args.api_key or os.environ.get("DSPARK_API_KEY")
        return key

    def target(self, socket: Path | None) -> Target:
        from engine.proof.endpoint import Target

        address = self.address or Address.of_socket(socket or Path())
        # the name a worker started here goes by need not be what --model called it
        model = self.args.model if self.address else None
        return Target(
            address.url, address.socket, model, self.headers, self.timeout, not address.local
        )


def _plan(args: argparse.Namespace) -> Plan:
    from engine.proof.probes import PROBES, Kind, Plan

    widths = {_number("--n", text, WIDEST) for text in args.n.split(",")}
    known = {"all": PROBES, "none": ()}
    names = [kind for name in args.probes.split(",") for kind in known.get(name, (name,))]
    if unknown := [name for name in names if name not in PROBES]:
        raise ValueError(f"--probes knows all, none, {PROBE_NAMES}, not {unknown[0]!r}")
    return Plan(
        widths=tuple(sorted(widths | {1})),  # without a baseline nothing can be gained
        tokens=_number("--tokens", args.tokens, 1_000_000),
        repeat=_number("--repeat", args.repeat, 1000),
        probes=tuple(Kind(name) for name in dict.fromkeys(names)),
        seed=args.seed,
    )


def _number(option: str, text: str, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise ValueError(f"{option} takes whole numbers from 1 to {most}, not {text!r}")
    return number


def _headers(args: argparse.Namespace) -> dict[str, str]:
    headers = {}
    if key := args.api_key or os.environ.get("DSPARK_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    for line in args.header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"--header takes 'NAME: VALUE', not {line!r}")
        headers[name.strip()] = value.strip()
    return headers


async def _bench(order: _Order) -> int:
    from rich.console import Console

    from dspark_tui.commands.bench_progress import Progress
    from engine.proof.probes import Examination

    stderr = Console(stderr=True)
    progress = Progress(stderr, order.plan, _glyphs(stderr))
    with progress:
        async with _endpoint(order, progress) as endpoint:
            examination = Examination(endpoint, order.plan, progress.round)
            interrupted = await _until_stopped(examination)
            report = _report(order, endpoint, examination, interrupted)
    if not report.usable_requests:
        why = report.failures[0] if report.failures else "stopped before any request was done"
        print(f"dspark-tui bench: no usable answer: {why}", file=sys.stderr)
    _publish(report, order.args)
    return exit_code(report)


async def _until_stopped(examination: Examination) -> bool:
    """Run it; Ctrl+C ends it early, with what there is. Whether that happened."""
    gc.collect()
    gc.freeze()  # walking all that is imported takes longer than a token
    try:
        await examination.run()
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()  # what follows is not to be cut short as well
        return True
    return False


@asynccontextmanager
async def _endpoint(order: _Order, progress: Progress) -> AsyncIterator[Endpoint]:
    """The server to ask, ours if none was named, warmed up. Raises BenchError."""
    from dspark_tui.commands.bench_record import recorded
    from engine.proof.endpoint import Endpoint, UnusableServerError
    from engine.proof.recording import RecordingError

    if order.address is None:
        async with _worker(order, progress) as ours, _endpoint(ours, progress) as endpoint:
            yield endpoint
        return
    endpoint = Endpoint(order.target(None))
    try:
        progress.stage(f"warming up {order.address}")
        await endpoint.prepare()
        async with recorded(order.address, order.api_key, order.args.record):
            yield endpoint
    except (UnusableServerError, RecordingError) as error:
        raise BenchError(str(error)) from None
    finally:
        await endpoint.aclose()


@asynccontextmanager
async def _worker(order: _Order, progress: Progress) -> AsyncIterator[_Order]:
    """The order, addressed to a worker that was started for it."""
    from dspark_tui.commands.bench_worker import WorkerError, local_worker
    from dspark_tui.worker import engine_command

    command = engine_command(
        order.args.model or "", order.max_batch, "auto", Paths.of_user().engine_log
    )
    try:
        async with local_worker(command, progress.stage) as socket:
            yield replace(order, address=Address.of_socket(socket))
    except WorkerError as error:
        raise BenchError(str(error)) from None


def _report(
    order: _Order, endpoint: Endpoint, examination: Examination, interrupted: bool
) -> Report:
    from engine.proof.report import Circumstances, Report

    circumstances = Circumstances(
        command=command_line(sys.argv[1:]),
        tool=f"dspark-tui {__version__}",
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        server=order.args.url or f"a worker of our own, {order.max_batch} slots",
        model=endpoint.model,
        fixed_length=endpoint.dialect.fixed_length,
        interrupted=interrupted,
    )
    return Report.of(examination.rounds, order.plan, circumstances)


def command_line(arguments: list[str]) -> str:
    """The command to run again; what unlocks the server is left out."""
    shown, secret = ["dspark-tui"], False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        hides = option in ("--api-key", "--header")
        masked = "…" if secret else f"{option}=…" if hides and equals else ""
        shown.append(masked or shlex.quote(argument))
        secret = hides and not equals
    return " ".join(shown)


def exit_code(report: Report) -> int:
    from engine.proof.verdict import Name

    if not report.usable_requests:
        return FAILED
    match report.verdict:
        case Name.BATCHED:
            return BATCHED
        case Name.INCONCLUSIVE | Name.MIXED:
            return UNTOLD
        case _:
            return NOT_BATCHED


def _publish(report: Report, args: argparse.Namespace) -> None:
    """Show it and write the files that were asked for. Raises BenchError when one can't be."""
    from dspark_tui.commands.bench_text import report_rows

    document = report.model_dump_json(indent=1) + "\n"
    if args.json == "-":
        sys.stdout.write(document)
    else:
        stdout = _stdout()
        for row in report_rows(report, stdout.width, _glyphs(stdout)):
            stdout.print(row)
    if args.json and args.json != "-":
        _write(Path(args.json), document)
    if args.svg:
        from engine.proof.svg import picture

        _write(Path(args.svg), picture(report))


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise BenchError(f"{tilde(path)} can't be written: {error.strerror or error}") from None


def _compare(first: Path, second: Path) -> int:
    from dspark_tui.commands.bench_text import comparison_rows

    a, b = _read(first), _read(second)
    stdout = _stdout()
    for row in comparison_rows(a, b):
        stdout.print(row)
    return BATCHED


def _read(path: Path) -> Report:
    from pydantic import ValidationError

    from engine.proof.report import Report

    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BenchError(f"{tilde(path)} can't be read: {error.strerror or error}") from None
    except ValidationError as error:
        log.info("%s: %s", path, error)
        raise BenchError(f"{tilde(path)} is no report of `bench --json`") from None


def _stdout() -> Console:
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _glyphs(console: Console) -> Glyphs:
    from dspark_tui.glyphs import ASCII, DEFAULT

    return DEFAULT if console.encoding.lower().startswith("utf") else ASCII
