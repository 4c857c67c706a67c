"""`dspark-tui models`: list, fetch and remove models. stdout is data, stderr is talk."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dspark_tui.exit_codes import Exit, in_words

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from engine.events import Progress
    from engine.models.catalog import Installed


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "models", help="list, fetch and remove models", epilog=in_words("models")
    )
    parser.set_defaults(run=run, action="list")
    actions = parser.add_subparsers(metavar="ACTION")
    actions.add_parser("list", help="what this machine has (the default)")
    fetch = actions.add_parser("fetch", help="make a model ready to run")
    fetch.add_argument(
        "name", nargs="?", metavar="NAME", help="hub id or .gguf file; else the embedded model"
    )
    fetch.set_defaults(action="fetch")
    remove = actions.add_parser("remove", help="delete a fetched model")
    remove.add_argument("name", metavar="NAME", help="as the list has it")
    remove.add_argument("--yes", action="store_true", help="don't ask")
    remove.set_defaults(action="remove")


def run(args: argparse.Namespace) -> int:
    """The exit code; what was not done has its reason on stderr."""
    from engine.models.errors import ModelError

    try:
        if args.action == "fetch":
            return _fetch(args.name)
        if args.action == "remove":
            return _remove(args.name, args.yes)
        return _list()
    except ModelError as error:
        print(f"dspark-tui: {error}", file=sys.stderr)
        return Exit.FAILED


def _list() -> int:
    from engine.models import catalog

    models = catalog.installed()
    if sys.stdout.isatty():
        _print_table(models)
    else:
        for model in models:
            print(model.name, model.kind, model.size, model.problem or "ready", sep="\t")
    return Exit.DONE


def _print_table(models: list[Installed]) -> None:
    from rich.console import Console
    from rich.filesize import decimal
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "kind", "size", "state", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for model in models:
        size = decimal(model.size) if model.size else "–"
        table.add_row(Text(model.name), model.kind, size, Text(model.problem or "ready"))
    Console().print(table)


def _fetch(name: str | None) -> int:
    from engine.models import catalog

    ref = catalog.resolve(name)
    with _progress() as report:
        folder = catalog.ensure(ref, report)
    print(folder)
    return Exit.DONE


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere one line per stage."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _StageLines()
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        yield _StageBar(bars)


class _StageBar:
    """Draws a fresh bar whenever the work changes."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task = bars.add_task("")
        self._detail = ""

    def __call__(self, progress: Progress) -> None:
        if progress.detail != self._detail:
            self._detail = progress.detail
            self._bars.remove_task(self._task)
            self._task = self._bars.add_task(progress.detail, total=progress.total or None)
        self._bars.update(self._task, completed=progress.done)


class _StageLines:
    """Writes a line to stderr whenever the work changes."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, progress: Progress) -> None:
        if progress.detail != self._last:
            self._last = progress.detail
            print(f"{progress.stage}: {progress.detail}", file=sys.stderr)


def _remove(name: str, sure: bool) -> int:
    from engine.models import catalog

    model = catalog.removable(name)
    if not sure and not _agreed(f"remove {model.name} ({model.size / 1e6:.0f} MB)?"):
        print("nothing was removed", file=sys.stderr)
        return Exit.FAILED
    catalog.remove(name)
    print(f"removed {name}", file=sys.stderr)
    return Exit.DONE


def _agreed(question: str) -> bool:
    """Ask on stderr. No answer, as when input is not a terminal, is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        print(file=sys.stderr)
        return False
