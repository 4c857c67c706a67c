"""An experiment's answers as rows of its result table. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.request_record import ASKED_WITH
from dspark_tui.experiments.experiment import Cell, Experiment
from dspark_tui.experiments.result_table import KEY, ResultError, Row

PASS, FAIL = "pass", "fail"
RESULT = "result"
"""The column that says whether all assertions hold; only there if there are any."""

RATING = "rating"
"""The column for what a person thinks of an answer, from 1 to 5; empty until they say."""

INPUT, ASSERTION = "input.", "assert: "
"""What columns of variables and of assertions begin with."""


def columns_of(experiment: Experiment) -> tuple[str, ...]:
    """Every row's columns, in order. Times are seconds from sending the request."""
    judged = [f"{ASSERTION}{assertion.name}" for assertion in experiment.assertions]
    return (
        *("cell", "prompt", "params"),
        *(f"{INPUT}{name}" for name in experiment.variables),
        *("text", "reason", "tokens", "prompt_tokens", "cached_tokens", "ttft", "seconds"),
        *([*judged, RESULT] if judged else []),
        *(RATING, "message", *ASKED_WITH, KEY),
    )


class RowMaker:
    """Makes the rows of one experiment, asked of one model."""

    def __init__(self, experiment: Experiment, model: str) -> None:
        self._assertions = experiment.assertions
        self._columns = columns_of(experiment)
        self._model = model
        self.cells = {cell.key(model): cell for cell in experiment.cells()}
        """By the key of their row, in order."""

    def row(self, cell: Cell, answer: Answer) -> Row:
        answered = {
            "text": answer.text,
            "reason": answer.reason,
            "tokens": answer.tokens,
            "prompt_tokens": answer.prompt_tokens,
            "cached_tokens": answer.cached_tokens,
            "ttft": _seconds(answer.ttft),
            "seconds": _seconds(answer.completion_time),
        }
        return self._judged(cell, answered)

    def settled(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of an earlier run as this one writes them: judged by today's assertions.

        What was asked by another version of the experiment stays. Raises ResultError where the
        table has no room for it.
        """
        return [
            self._judged(cell, row) if (cell := self.cells.get(row[KEY])) else self._kept(row)
            for row in rows
        ]

    def _judged(self, cell: Cell, row: Row) -> Row:
        held = {
            f"{ASSERTION}{assertion.name}": assertion.holds(row["text"], cell.inputs)
            for assertion in self._assertions
        }
        verdicts = {column: PASS if holds else FAIL for column, holds in held.items()}
        result = PASS if all(held.values()) else FAIL
        full = row | self._asked(cell) | verdicts | {RESULT: result}
        return {column: full.get(column) for column in self._columns}

    def _asked(self, cell: Cell) -> Row:
        params = cell.params
        values = self._model, params.system, json.dumps(params.sampling())
        return {
            "cell": cell.number,
            "prompt": cell.prompt,
            "params": params.name,
            **{f"{INPUT}{name}": value for name, value in cell.inputs.items()},
            "message": cell.message,
            **dict(zip(ASKED_WITH, values, strict=True)),
            KEY: cell.key(self._model),
        }

    def _kept(self, row: Row) -> Row:
        for column in row.keys() - set(self._columns):
            if not column.startswith(ASSERTION) and column != RESULT:
                raise ResultError(
                    f"the results there are another experiment's (column {column!r}); "
                    "choose another file"
                )
        return row


def broken_in(row: Row) -> list[str]:
    """The names of the assertions that don't hold."""
    return [
        column.removeprefix(ASSERTION)
        for column, verdict in row.items()
        if column.startswith(ASSERTION) and verdict == FAIL
    ]


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
