"""Markdown tables in any width: columns are aligned, and cells wrap where they must. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import ceil

from msgspec import Struct, field
from rich.cells import cell_len

from dspark_tui.text.lightmark import Mark, Run
from dspark_tui.text.lines import Line
from dspark_tui.text.markdown_spans import Span, runs_of, text_of
from dspark_tui.text.wrap import wrap

NARROWEST = 4
"""Cells a column needs. Where there are fewer, rows are text, their cells behind one another."""

BETWEEN = " │ "
CROSSING = "─┼─"


class Table(Struct):
    """All cells of a table, its heading first. aligned: "left", "right" or "center" each."""

    aligned: list[str] = field(default_factory=list)
    rows: list[list[list[Span]]] = field(default_factory=list)
    _fitted: dict[int, list[int]] = field(default_factory=dict)

    def widths(self, room: int) -> list[int]:
        """Cells for each column so that a row takes `room`; [] where that is too little."""
        if room not in self._fitted:
            self._fitted = {room: self._fit(room - len(BETWEEN) * (len(self.aligned) - 1))}
        return self._fitted[room]

    def _fit(self, room: int) -> list[int]:
        """Narrow columns get what they want, the others share the rest evenly."""
        wanted = [
            max([1, *(cell_len(text_of(row[column])) for row in self.rows)])
            for column in range(len(self.aligned))
        ]
        if sum(min(width, NARROWEST) for width in wanted) > room:
            return []
        widths = list(wanted)
        if sum(wanted) > room:
            left, columns = room, sorted(range(len(wanted)), key=wanted.__getitem__)
            for place, column in enumerate(columns):
                share = max(NARROWEST, left // (len(columns) - place))
                widths[column] = min(wanted[column], share)
                left -= widths[column]
        return widths


class TableLine(Line):
    """A row of a table, over as many terminal rows as its fullest cell takes.

    row: its place in the table; None draws the line under the heading. before: what it stands in.
    """

    table: Table
    row: int | None
    before: tuple[Span, ...]
    indent: str
    spread: list[Run] = field(default_factory=list)

    def lay_out(self, width: int) -> None:
        room = max(1, width - cell_len(text_of(self.before)))
        widths = self.table.widths(room)
        if self.row is None:
            rows = [[Span(CROSSING.join("─" * width for width in widths or [room]), Mark.SIGN)]]
        else:
            cells = self.table.rows[self.row]
            rows = _columns(cells, widths, self.table.aligned) if widths else _joined(cells, room)
        self.hang = self.indent
        self.drawn, self.rows, self.spread = "", [], []
        for number, row in enumerate(rows):
            spans = [*self.before, *row] if number == 0 else row
            start = len(self.drawn)
            self.spread += runs_of(spans, start)
            self.drawn += text_of(spans)
            self.rows.append((start, len(self.drawn)))

    @property
    def runs(self) -> list[Run]:
        return self.spread


def _columns(
    cells: Sequence[Sequence[Span]], widths: Sequence[int], aligned: Sequence[str]
) -> list[list[Span]]:
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    rows = []
    for pieces in zip_longest(*wrapped, fillvalue=()):
        row: list[Span] = []
        for piece, width, side in zip(pieces, widths, aligned, strict=True):
            row += [Span(BETWEEN, Mark.SIGN)] if row else []
            row += _aligned(piece, width, side)
        rows.append(row)
    return rows


def _joined(cells: Sequence[Sequence[Span]], room: int) -> list[list[Span]]:
    spans: list[Span] = []
    for cell in cells:
        spans += [Span(BETWEEN, Mark.SIGN)] if spans else []
        spans += cell
    return _wrapped(spans, room)


def _wrapped(cell: Sequence[Span], width: int) -> list[list[Span]]:
    text, runs = text_of(cell), runs_of(cell)
    return [
        [
            Span(text[max(run.start, start) : min(run.end, end)], run.mark, run.within)
            for run in runs
            if run.start < end and run.end > start
        ]
        for start, end in wrap(text, width)
    ]


def _aligned(piece: Sequence[Span], width: int, aligned: str) -> list[Span]:
    blanks = max(0, width - cell_len(text_of(piece)))
    before = {"right": blanks, "center": blanks - ceil(blanks / 2)}.get(aligned, 0)
    return [Span(" " * before), *piece, Span(" " * (blanks - before))]
