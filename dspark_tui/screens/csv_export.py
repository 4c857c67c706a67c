"""Tables for other programs to read, beside where the workbench was started."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from textual.screen import Screen

from dspark_tui.conversation.answer import whole_characters
from dspark_tui.paths import tilde, write_atomically


def export(
    screen: Screen[None], what: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write a table of that kind under a new name, and say where it is or why it is not."""
    path = Path.cwd() / time.strftime(f"{what}-%Y%m%d-%H%M%S.csv")
    try:
        write_csv(path, header, rows)
    except OSError as error:
        problem = f"{tilde(path)} can't be written: {error.strerror}"
        screen.notify(problem, severity="error", timeout=8, markup=False)
    else:
        screen.notify(f"written to {tilde(path)}", timeout=5, markup=False)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table as RFC 4180 has it: texts are read back exactly. Raises OSError."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(header)
    writer.writerows(rows)
    write_atomically(path, whole_characters(table.getvalue()))
