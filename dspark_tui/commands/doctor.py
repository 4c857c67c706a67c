"""`dspark-tui doctor`: everything a start depends on, each line with its fix."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.paths import Paths
from dspark_tui.text.counted import counted

if TYPE_CHECKING:
    from dspark_tui.commands.checks import Check

LEVEL_WIDTH, TOPIC_WIDTH = 9, 11
STYLES = {"ok": "green", "warning": "bold yellow", "error": "bold red"}


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "doctor", help="check everything a start depends on", epilog=in_words("doctor")
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The exit code; warnings are no errors."""
    from dspark_tui.commands.checks import Level, checks

    console = Console()
    counts: Counter[str] = Counter()
    for check in checks(Paths.of_user(), os.environ):
        counts[check.level] += 1
        show(check, console)
    console.print(f"\n{_summary(counts)}", highlight=False)
    return Exit.FAILED if counts[Level.ERROR] else Exit.DONE


def show(check: Check, console: Console) -> None:
    """Wrapped and coloured on a terminal, elsewhere one line for each check and one for its fix."""
    if not console.is_terminal:
        print(f"{check.level:{LEVEL_WIDTH}}{check.topic:{TOPIC_WIDTH}}{check.text}", flush=True)
        if check.fix:
            print(f"{'':{LEVEL_WIDTH}}{'fix:':{TOPIC_WIDTH}}{check.fix}", flush=True)
        return
    table = Table.grid()
    table.add_column(width=LEVEL_WIDTH)
    table.add_column(width=TOPIC_WIDTH)
    table.add_column(overflow="fold")
    text = Text(check.text)
    table.add_row(Text(check.level, STYLES[check.level]), Text(check.topic, "bold"), text)
    if check.fix:
        table.add_row("", Text("fix", "dim"), Text(check.fix))
    console.print(table)


def _summary(counts: Counter[str]) -> str:
    bad = [level for level in ("error", "warning") if counts[level]]
    found = [counted(counts[level], level) for level in bad]
    return ", ".join(found) or "All is well."
