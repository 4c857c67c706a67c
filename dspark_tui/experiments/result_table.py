"""The file an experiment's results go to: one row for each answer, appended when it is complete.

A row counts only if all of it is there. Whatever ended the program, the file is whole but for a
last row that was being written, and the next run drops that. Every text is read back exactly as it
was, in all three formats.
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dspark_tui.experiments.experiment import KEY_DIGITS
from dspark_tui.paths import tilde, write_atomically

Row = dict[str, Any]
"""A value for each column."""

KEY = "key"
"""The last column: tells what was asked, and that the row is whole."""

_WHOLE_KEY = re.compile(f"[0-9a-f]{{{KEY_DIGITS}}}")


class ResultError(Exception):
    """The file can't be used. `str()` is one line for the person."""


class Format(ABC):
    """How a table is written. columns: KEY is the last."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns

    @property
    @abstractmethod
    def head(self) -> str:
        """What the file starts with."""

    @abstractmethod
    def line(self, row: Row) -> str:
        """One row, with its line end."""

    @abstractmethod
    def rows(self, text: str) -> Iterator[Row | None]:
        """What `line` wrote, None for what is no whole row. Raises ValueError for other tables."""


class Csv(Format):
    """As RFC 4180 has it."""

    @property
    def head(self) -> str:
        return self._written(self.columns)

    def line(self, row: Row) -> str:
        return self._written([_plain(row.get(column)) for column in self.columns])

    def rows(self, text: str) -> Iterator[Row | None]:
        csv.field_size_limit(sys.maxsize)
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            header = _known(next(reader, []))
            for values in reader:
                yield _row(header, values)
        except csv.Error:
            yield None

    def _written(self, values: Sequence[str]) -> str:
        line = io.StringIO()
        csv.writer(line).writerow(values)
        return line.getvalue()


class Jsonl(Format):
    """A JSON object a line; numbers stay numbers."""

    head = ""

    def line(self, row: Row) -> str:
        return json.dumps(row, ensure_ascii=False) + "\n"

    def rows(self, text: str) -> Iterator[Row | None]:
        for line in text.split("\n"):
            if not line:
                continue
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not (line.startswith("{") if row is None else isinstance(row, dict) and KEY in row):
                raise ValueError(f"a line is no object with a {KEY!r}")
            yield row


class Markdown(Format):
    """A table that renders; what would end a cell or start a tag is written as an entity."""

    @property
    def head(self) -> str:
        return self._written(self.columns) + "|---" * len(self.columns) + "|\n"

    def line(self, row: Row) -> str:
        return self._written([_plain(row.get(column)) for column in self.columns])

    def rows(self, text: str) -> Iterator[Row | None]:
        head, *lines = text.split("\n")
        header = _known(self._cells(head))
        return (_row(header, self._cells(line)) for line in lines[1:] if line)

    def _written(self, values: Iterable[str]) -> str:
        return f"| {' | '.join(map(_escaped, values))} |\n"

    def _cells(self, line: str) -> list[str]:
        inner = line.removeprefix("| ").removesuffix(" |")
        return [html.unescape(cell.replace("<br>", "\n")) for cell in inner.split(" | ")]


FORMATS: dict[str, type[Format]] = {".csv": Csv, ".jsonl": Jsonl, ".md": Markdown}


class ResultTable:
    """The file at `path`, in the format its name asks for. Raises ResultError."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        kind = FORMATS.get(path.suffix.lower())
        if kind is None:
            raise ResultError(f"{tilde(path)} must end in one of {', '.join(FORMATS)}")
        self.path, self.columns = path, columns
        self._format = kind(columns)

    def rows(self) -> list[Row]:
        """The whole rows that are there; none if there is no file. Raises ResultError."""
        text = self._text()
        try:
            rows = list(self._format.rows(text)) if text else []
        except ValueError as error:
            raise self._foreign(str(error)) from None
        if rows and rows[-1] is None:
            rows.pop()
        if None in rows:
            raise self._foreign(f"row {rows.index(None) + 1} is broken")
        return [row for row in rows if row is not None]

    def replace(self, rows: Iterable[Row]) -> None:
        """Let the file hold these rows and no others; untouched if it does. Raises ResultError."""
        text = self._format.head + "".join(self._format.line(row) for row in rows)
        try:
            if not self.path.exists() or text != self._text():
                write_atomically(self.path, text)
        except OSError as error:
            raise self._failed("written", error) from None

    def append(self, row: Row) -> None:
        """Add a row; it is on the disk when this returns. Raises ResultError."""
        try:
            with self.path.open("ab") as file:
                file.write(self._format.line(row).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed("written", error) from None

    def _text(self) -> str:
        """All of the file but half a character at its end; "" if there is no file."""
        try:
            data = self.path.read_bytes()
            return data.decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._failed("read", error) from None
        except UnicodeDecodeError as error:
            if error.end < len(data):
                raise self._foreign("not UTF-8 text") from None
            return data[: error.start].decode("utf-8-sig")

    def _failed(self, what: str, error: OSError) -> ResultError:
        return ResultError(f"{tilde(self.path)} can't be {what}: {error.strerror or error}")

    def _foreign(self, why: str) -> ResultError:
        return ResultError(
            f"{tilde(self.path)} is no table of results ({why}); choose another file"
        )


def _known(header: list[str]) -> list[str]:
    if header[-1:] != [KEY]:
        raise ValueError(f"its last column is not {KEY!r}")
    return header


def _row(header: list[str], values: list[str]) -> Row | None:
    whole = len(values) == len(header) and _WHOLE_KEY.fullmatch(values[-1])
    return dict(zip(header, values, strict=True)) if whole else None


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def _escaped(text: str) -> str:
    safe = html.escape(text, quote=False).replace("|", "&#124;").replace("\r", "&#13;")
    return safe.replace("\n", "<br>")
