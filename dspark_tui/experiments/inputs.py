"""The [inputs] of an experiment's file: a table, rows or lists, paired or crossed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from dspark_tui.experiments.experiment import CELL_LIMIT, Inputs
from dspark_tui.experiments.input_table import as_text, read_rows
from dspark_tui.toml_source import Place, TomlSource

SOURCES = ("table", "rows", "lists")
ZIP, PRODUCT = "zip", "product"
KEYS = (*SOURCES, "combine")
HERE = Place("inputs")

Columns = Mapping[str, list[str]]
"""The values of each variable."""


def read_inputs(source: TomlSource) -> tuple[Inputs, ...]:
    """The rows; without [inputs] a single one without variables. Raises FileError."""
    if "inputs" not in source.document:
        return ({},)
    table = source.table(source.document["inputs"], KEYS, HERE)
    combine = table.get("combine", ZIP)
    if combine not in (ZIP, PRODUCT):
        source.refuse("combine", f"takes {ZIP} or {PRODUCT}, not {combine!r}", HERE)
    given = [name for name in SOURCES if name in table]
    if len(given) != 1:
        source.refuse("inputs", f"takes exactly one of {', '.join(SOURCES)}", HERE)
    match given[0]:
        case "lists":
            columns = _lists(source, table["lists"])
            return _crossed(source, columns) if combine == PRODUCT else _paired(source, columns)
        case "rows":
            rows = _rows(source, table["rows"])
        case _:
            rows = _table(source, table["table"])
    return _crossed(source, _columns(rows)) if combine == PRODUCT else tuple(rows)


def _table(source: TomlSource, name: Any) -> list[dict[str, str]]:
    """A relative path starts at the experiment's folder."""
    if not isinstance(name, str):
        source.refuse("table", f"takes a file's name in quotes, not {name!r}", HERE)
    return read_rows(source.path.parent / Path(name).expanduser())


def _rows(source: TomlSource, rows: Any) -> list[dict[str, str]]:
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        source.refuse("rows", "takes a list of rows: [{variable = value}, …]", HERE)
    return [{name: as_text(value) for name, value in row.items()} for row in rows]


def _lists(source: TomlSource, lists: Any) -> Columns:
    if not isinstance(lists, dict) or not lists:
        source.refuse("lists", "takes lists: {variable = [value, …]}", HERE)
    for name, values in lists.items():
        if not isinstance(values, list) or not values:
            wanted = f"takes a list of values for {name}, not {values!r}"
            source.refuse("lists", wanted, HERE)
    return {name: [as_text(value) for value in values] for name, values in lists.items()}


def _columns(rows: list[dict[str, str]]) -> Columns:
    """Every variable's values, each once."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: list(dict.fromkeys(r[name] for r in rows if name in r)) for name in names}


def _paired(source: TomlSource, columns: Columns) -> tuple[Inputs, ...]:
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        hint = f'combine = "{PRODUCT}" takes each with each'
        source.refuse("lists", f"differ in length: {lengths}", HERE, hint)
    rows = zip(*columns.values(), strict=True)
    return tuple(dict(zip(columns, row, strict=True)) for row in rows)


def _crossed(source: TomlSource, columns: Columns) -> tuple[Inputs, ...]:
    if (size := math.prod(map(len, columns.values()))) > CELL_LIMIT:
        source.refuse("inputs", f"come to {size} rows; at most {CELL_LIMIT} are run", HERE)
    return tuple(dict(zip(columns, row, strict=True)) for row in product(*columns.values()))
