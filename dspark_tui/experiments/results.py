"""The answers an experiment has so far, and the file they are in."""

from __future__ import annotations

from collections.abc import Iterable

from dspark_tui.conversation.answer import Answer
from dspark_tui.experiments.experiment import Cell
from dspark_tui.experiments.result_table import KEY, ResultTable, Row
from dspark_tui.experiments.rows import RATING, RowMaker


class Results:
    """Every row goes to the file at once. Raises ResultError wherever the file is touched."""

    def __init__(self, maker: RowMaker, table: ResultTable, rows: Iterable[Row]) -> None:
        """rows: what the table holds; written anew, judged by today's assertions."""
        self._maker, self._table = maker, table
        table.replace(settled := maker.settled(rows))
        self._there = {row[KEY]: row for row in settled if row[KEY] in maker.cells}

    @property
    def count(self) -> int:
        """How many cells the experiment has, answered or not."""
        return len(self._maker.cells)

    @property
    def rows(self) -> list[tuple[Cell, Row]]:
        """The cells that have an answer."""
        return [(self._maker.cells[key], row) for key, row in self._there.items()]

    @property
    def missing(self) -> list[Cell]:
        return [cell for key, cell in self._maker.cells.items() if key not in self._there]

    def add(self, cell: Cell, answer: Answer) -> Row:
        row = self._maker.row(cell, answer)
        self._table.append(row)
        self._there[row[KEY]] = row
        return row

    def rate(self, row: Row, rating: int | None) -> None:
        """Note what a person thinks of an answer, from 1 to 5.

        The file is read again for it: another run may have added to it meanwhile.
        """
        row[RATING] = rating
        rows = self._table.rows()
        self._table.replace(row if row[KEY] == other[KEY] else other for other in rows)
