"""`dspark-tui audit`: what decoding costs, what this machine allows, and how near it comes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from dspark_tui.arguments import slots
from dspark_tui.commands.outputs import OutputError, check_output
from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.paths import tilde, write_atomically

if TYPE_CHECKING:
    from engine.events import Progress
    from engine.hardware.roofline import Machine, Tensor
    from engine.proof.audit import Audit, Report

PLAIN_WIDTH = 110
"""Columns where the output is no terminal."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "audit",
        help="bytes per token, memory bandwidth, and how near decoding comes to the limit",
        description="Load a model, measure this machine and decode at every batch width; "
        "takes about a minute.",
        epilog=in_words("audit"),
    )
    parser.add_argument(
        "--model",
        metavar="M",
        help="folder, .gguf file, hub id or known name (default: the small embedded model)",
    )
    parser.add_argument(
        "--max-batch", type=slots, default=8, metavar="N", help="the widest batch (default 8)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 done, 1 not done with the reason on stderr."""
    from engine.hardware import blas, kernels
    from engine.server.logs import open_log

    blas.prepare()  # before anything imports MLX
    kernels.prepare()
    from engine.models import catalog
    from engine.models.errors import ModelError
    from engine.proof.audit import AuditError, audit
    from engine.server.process import ModelLoader

    open_log(None)
    try:
        if args.json:
            check_output("--json", args.json)
        loader = ModelLoader(catalog.resolve(args.model), "auto")
        with _progress() as report:
            found = audit(loader, args.max_batch, report)
    except (OutputError, ModelError, AuditError) as error:
        return _failed(str(error))
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    for part in report_of(found):
        console.print(part)
    return _write(found, args.json) if args.json else Exit.DONE


def _write(audit: Audit, path: Path) -> int:
    try:
        write_atomically(path, json.dumps(audit.document(), indent=1) + "\n")
    except OSError as error:
        return _failed(f"{tilde(path)} can't be written: {error.strerror or error}")
    return Exit.DONE


def report_of(audit: Audit) -> Iterator[RenderableType]:
    """The report, part by part."""
    roofline, model = audit.roofline, audit.model
    yield Text.assemble((model.id, "bold"), f"  {model.precision}, {model.parameters:,} parameters")
    for fact in audit.facts:
        yield Text(fact, style="dim")
    yield Text("\nBytes one token reads, alone", style="bold")
    yield _tensor_table(list(roofline.tensors))
    first = audit.samples[0]
    yield Text.assemble(
        f"{decimal(round(roofline.step_bytes(1, 0)))} of weights, and "
        f"{decimal(roofline.kv_bytes_per_token)} of keys and values for each token of context "
        f"({decimal(first.context * roofline.kv_bytes_per_token)} at {first.context})"
    )
    if roofline.expert_shares:
        shares = ", ".join(f"{rows}: {s:.0%}" for rows, s in roofline.expert_shares.items())
        yield Text(f"routed experts that so many rows need, seen while reading text: {shares}")
    yield Text("\nWhat this machine reached", style="bold")
    yield _machine_table(roofline.machine)
    yield Text(
        f"arithmetic  {roofline.machine.multiplications * 2 / 1e9:.0f} GFLOP/s, of which a token "
        f"needs {roofline.weights_per_token * 2 / 1e9:.3g} GFLOP"
    )
    yield Text("\nCeiling and stopwatch", style="bold")
    yield _sample_table(audit)
    yield Text(f"\n{audit.conclusion()}")


def _tensor_table(tensors: list[Tensor]) -> Table:
    """One line for the same tensor of all layers."""
    table = _table("tensor", "count", "bytes", "read", "bytes read")
    ordered = sorted(tensors, key=_kind)
    for kind, group in groupby(ordered, key=_kind):
        alike = list(group)
        read = sum(tensor.bytes_read(1) for tensor in alike)
        table.add_row(
            Text(kind),
            str(len(alike)),
            decimal(sum(tensor.bytes for tensor in alike)),
            _how_read(alike[0]),
            decimal(round(read)),
        )
    return table


def _kind(tensor: Tensor) -> str:
    """Its name, the layer's number left open."""
    return ".".join("*" if part.isdigit() else part for part in tensor.name.split("."))


def _how_read(tensor: Tensor) -> str:
    return {
        "whole": "whole",
        "row": f"1 row of {tensor.entries:,}",
        "experts": f"{tensor.chosen} experts of {tensor.entries}",
    }[tensor.reading]


def _machine_table(machine: Machine) -> Table:
    table = _table("working set", "one stream", "best", "streams")
    for point in machine.bandwidth:
        table.add_row(
            decimal(point.size), _gb(point.one_stream), _gb(point.best), str(point.streams)
        )
    return table


def _sample_table(audit: Audit) -> Table:
    table = _table(
        "rows", "bytes/token", "ceiling tok/s", "limit", "measured tok/s", "moved", "of ceiling"
    )
    for sample in audit.samples:
        result, ceiling = sample.result, sample.result.ceiling
        table.add_row(
            str(ceiling.rows),
            decimal(round(ceiling.bytes / ceiling.rows)),
            f"{ceiling.rate:.1f}",
            ceiling.limit,
            Text(f"{result.rate:.1f}", style="bold"),
            _gb(result.bandwidth),
            f"{result.utilisation:.0%}",
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(first, box=None, pad_edge=False, header_style="dim")
    for title in others:
        table.add_column(title, justify="right")
    return table


def _gb(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s"


@contextmanager
def _progress() -> Iterator[Report]:
    """On a terminal one line that changes; elsewhere a line for each stage, on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _stage_lines()
        return
    with console.status("starting") as status:

        def show(progress: Progress) -> None:
            of = f"  {progress.done} of {progress.total}" if progress.total else ""
            status.update(Text(f"{progress.stage}  {progress.detail}{of}"))

        yield show


def _stage_lines() -> Report:
    said: set[tuple[str, str]] = set()

    def say(progress: Progress) -> None:
        if (progress.stage, progress.detail) not in said:
            said.add((progress.stage, progress.detail))
            print(f"{progress.stage}: {progress.detail}", file=sys.stderr)

    return say


def _failed(message: str) -> int:
    print(f"dspark-tui: {message}", file=sys.stderr)
    return Exit.FAILED
