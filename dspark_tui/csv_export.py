"""Tables for other programs to read, beside where the workbench was started."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from dspark_tui.paths import write_atomically


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table as RFC 4180 has it: texts are read back exactly. Raises OSError."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(header)
    writer.writerows(rows)
    write_atomically(path, table.getvalue())


def export_path(what: str) -> Path:
    """A new name for today's table of that kind."""
    return Path.cwd() / time.strftime(f"{what}-%Y%m%d-%H%M%S.csv")
