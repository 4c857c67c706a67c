"""An experiment's inputs from a table file: CSV with a header, or JSON objects line by line."""

from __future__ import annotations

import csv
import datetime
import io
import json
import sys
from pathlib import Path
from typing import Any

from dspark_tui.toml_source import FileError, Problem

SUFFIXES = (".csv", ".jsonl")


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows in order, every value as text. Raises FileError."""
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(Problem(path, 0, "", f"ends in none of {', '.join(SUFFIXES)}"))
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except OSError as error:
        raise FileError(Problem(path, 0, "", f"can't be read: {error.strerror or error}")) from None
    except UnicodeDecodeError:
        raise FileError(Problem(path, 0, "", "is not UTF-8 text")) from None
    rows = _csv(path, text) if path.suffix.lower() == ".csv" else _jsonl(path, text)
    if not rows:
        raise FileError(Problem(path, 0, "", "has no rows"))
    return rows


def as_text(value: Any) -> str:
    """A value as a prompt shows it: text as it is, anything else as JSON."""
    if isinstance(value, str | datetime.date | datetime.time):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _csv(path: Path, text: str) -> list[dict[str, str]]:
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise FileError(Problem(path, 1, "", "has two columns of one name"))
        for values in reader:
            if values and len(values) != len(header):
                counts = f"{len(values)} instead of {len(header)}"
                raise FileError(Problem(path, reader.line_num, "", f"has {counts} values"))
            if values:
                rows.append(dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise FileError(Problem(path, reader.line_num, "", f"is not valid CSV: {error}")) from None
    return rows


def _jsonl(path: Path, text: str) -> list[dict[str, str]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(Problem(path, number, "", f"is not valid JSON: {error}")) from None
        if not isinstance(row, dict):
            raise FileError(Problem(path, number, "", "is no JSON object"))
        rows.append({name: as_text(value) for name, value in row.items()})
    return rows
