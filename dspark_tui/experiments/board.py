"""An experiment as a grid: an input a row, a prompt with a parameter set a column. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from dspark_tui.batch.ending import Ending, ending_by
from dspark_tui.conversation.answer import Answer
from dspark_tui.experiments.experiment import Cell, Experiment, Inputs
from dspark_tui.experiments.result_table import Row
from dspark_tui.experiments.rows import ASSERTION, PASS, RATING

RATINGS = range(1, 6)


class State(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    ANSWERED = "answered"
    REFUSED = "refused"


class Entry(Struct):
    """A cell and what became of it. answer: while it is asked. row: as soon as it is answered.
    problem: why it was refused.
    """

    cell: Cell
    answer: Answer | None = None
    row: Row | None = None
    problem: str = ""

    @property
    def state(self) -> State:
        if self.row is not None:
            return State.ANSWERED
        if self.answer is not None:
            return State.RUNNING
        return State.REFUSED if self.problem else State.WAITING

    @property
    def text(self) -> str:
        if self.row is not None:
            return str(self.row["text"])
        return self.answer.text if self.answer is not None else ""

    @property
    def verdicts(self) -> list[bool]:
        """Which of the assertions hold, in their order; none before there is an answer."""
        row = self.row or {}
        return [row[column] == PASS for column in row if column.startswith(ASSERTION)]

    @property
    def failed(self) -> bool:
        return self.state is State.REFUSED or not all(self.verdicts)

    @property
    def ending(self) -> Ending | None:
        """How it ended; None before that."""
        if self.row is not None:
            return ending_by(self.row["reason"])
        return Ending.FAILED if self.state is State.REFUSED else None

    @property
    def tokens(self) -> int | None:
        return _whole(self._value("tokens"))

    @property
    def seconds(self) -> float | None:
        return _real(self._value("seconds"))

    @property
    def ttft(self) -> float | None:
        return _real(self._value("ttft"))

    @property
    def rating(self) -> int | None:
        rating = _whole(self._value(RATING))
        return rating if rating in RATINGS else None

    def _value(self, column: str) -> Any:
        return self.row.get(column) if self.row is not None else None


class Order(StrEnum):
    """What a grid's rows are sorted by; in words, after "sorted by"."""

    INPUT = "input"
    FAILED = "failed first"
    TOKENS = "most tokens"
    TIME = "longest time"
    RATING = "best rating"

    @property
    def next(self) -> Order:
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


class View(Struct, frozen=True):
    """Which rows are shown and how they are sorted: those with a cell that is all it asks for.

    text: somewhere in the answer or the inputs, in any case.
    """

    order: Order = Order.INPUT
    text: str = ""
    failed: bool = False
    unrated: bool = False

    @property
    def whole(self) -> bool:
        """Does it show everything?"""
        return not (self.text or self.failed or self.unrated)

    def wants(self, entry: Entry) -> bool:
        if self.failed and not entry.failed:
            return False
        if self.unrated and (entry.row is None or entry.rating is not None):
            return False
        wanted = self.text.casefold()
        texts = (entry.text, *entry.cell.inputs.values())
        return not wanted or any(wanted in text.casefold() for text in texts)


SORT_KEYS: dict[Order, Callable[[Entry], float]] = {
    Order.INPUT: lambda _: 0,
    Order.FAILED: lambda entry: entry.failed,
    Order.TOKENS: lambda entry: entry.tokens or 0,
    Order.TIME: lambda entry: entry.seconds or 0.0,
    Order.RATING: lambda entry: entry.rating or 0,
}
"""What comes first has the largest."""


class Board:
    """All cells of an experiment, by row and column. columns: what tells each from the others.

    broken: how many answers break an assertion. version: changes with every cell that does.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.columns = _titles(experiment)
        self.inputs: tuple[Inputs, ...] = experiment.inputs
        self.version = self.broken = 0
        self._entries = [Entry(cell) for cell in experiment.cells()]
        self._counts = Counter({State.WAITING: len(self._entries)})

    def entry(self, row: int, column: int) -> Entry:
        sets = len(self.experiment.params)
        prompt, params = divmod(column, sets)
        return self._entries[(prompt * len(self.inputs) + row) * sets + params]

    def rows(self, view: View) -> list[int]:
        """The rows the view shows, in its order; equal ones as in the experiment."""
        if view == View():
            return list(range(len(self.inputs)))
        columns = range(len(self.columns))
        key = SORT_KEYS[view.order]
        ranks: dict[int, float] = {}
        for row in range(len(self.inputs)):
            entries = [self.entry(row, column) for column in columns]
            if view.whole or any(map(view.wants, entries)):
                ranks[row] = max(map(key, entries))
        return sorted(ranks, key=lambda row: -ranks[row])

    def entries(self, rows: Iterable[int]) -> list[Entry]:
        """The cells of these rows, as they are read."""
        return [self.entry(row, column) for row in rows for column in range(len(self.columns))]

    def count(self, state: State) -> int:
        return self._counts[state]

    # ---- what happens to a cell

    def begun(self, cell: Cell, answer: Answer) -> None:
        self._change(cell, answer=answer)

    def answered(self, cell: Cell, row: Row) -> None:
        self._change(cell, row=row)

    def refused(self, cell: Cell, problem: str) -> None:
        self._change(cell, problem=problem)

    def stopped(self) -> None:
        """What was being asked waits again."""
        for entry in self._entries:
            if entry.answer is not None:
                self._change(entry.cell)

    def touched(self) -> None:
        """Somebody changed a row."""
        self.version += 1

    def _change(
        self,
        cell: Cell,
        answer: Answer | None = None,
        row: Row | None = None,
        problem: str = "",
    ) -> None:
        old, new = self._entries[cell.number - 1], Entry(cell, answer, row, problem)
        self._entries[cell.number - 1] = new
        self._counts[old.state] -= 1
        self._counts[new.state] += 1
        self.broken += all(old.verdicts) - all(new.verdicts)
        self.version += 1


def _titles(experiment: Experiment) -> list[str]:
    """Prompt and parameter set of each column; only one of the two if the other is the same."""
    prompts, sets = experiment.prompts, experiment.params
    if len(prompts) == 1:
        return [params.name for params in sets]
    if len(sets) == 1:
        return [prompt.name for prompt in prompts]
    return [f"{prompt.name} / {params.name}" for prompt in prompts for params in sets]


def _real(value: Any) -> float | None:
    """A number from a result file, whose formats may make a text of it and people anything."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _whole(value: Any) -> int | None:
    number = _real(value)
    return int(number) if number is not None and number.is_integer() else None
