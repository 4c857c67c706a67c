"""Rows of styled text for the batch panel, before any of it is painted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len

from dspark_tui.batch.cell import Cell
from dspark_tui.text.foreign import drawable
from dspark_tui.text.wrap import cut, wrap

STYLES = ("text", "dim", "strong", "picked", "rule", "warning", "error", "width", *Cell)


class Part(NamedTuple):
    """Text in one style; the style names a component class of the panel."""

    text: str
    style: str = "text"


Row = tuple[Part, ...]


def row_cells(row: Iterable[Part]) -> int:
    return sum(cell_len(part.text) for part in row)


def wrapped(text: str, width: int, style: str, most: int, hang: int = 2) -> list[Row]:
    """Foreign or our own text on at most `most` rows."""
    text = drawable(text.replace("\n", " "))
    slices = wrap(text, width, hang)
    if len(slices) > most:
        slices = [*slices[: most - 1], (slices[most - 1][0], len(text))]
    rows: list[Row] = [(Part(cut(text[slice(*slices[0])], width).rstrip(), style),)]
    for start, end in slices[1:]:
        rest = cut(text[start:end], width - hang).rstrip()
        rows.append((Part(" " * hang), Part(rest, style)))
    return rows
