"""What becomes of an experiment's answers: rows in the table, and news of them on stderr."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dspark_tui.batch.live import Aggregate
from dspark_tui.conversation.answer import Answer
from dspark_tui.engines.client_errors import ClientError
from dspark_tui.experiments.experiment import Cell
from dspark_tui.experiments.results import Results
from dspark_tui.experiments.rows import broken_in
from dspark_tui.paths import tilde
from dspark_tui.plain import outcome
from dspark_tui.text.foreign import drawable

FRAMES = 4
"""A second."""


class RunReport:
    """Takes answers in. not_passed: rows that break an assertion, those of earlier runs included.
    refused: cells that got no answer.
    """

    def __init__(self, results: Results, path: Path) -> None:
        """path: of the file the results are in."""
        self._results, self._path = results, path
        there = results.rows
        self.not_passed = sum(bool(broken_in(row)) for _, row in there)
        self.refused = 0
        self._there, self._tokens = len(there), 0
        self._asked: set[int] = set()
        self._started: float | None = None
        self._ended = 0.0
        self._console = Console(stderr=True, highlight=False)
        columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
        self._bar = Progress(
            *columns, TimeElapsedColumn(), console=self._console, transient=True,
            disable=not self._console.is_terminal, refresh_per_second=FRAMES,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=results.count, completed=self._there)

    def __enter__(self) -> Self:
        if self._there:
            left = self._results.count - self._there
            rest = f"{left} to go" if left else "nothing is left to ask"
            verb = "is" if self._there == 1 else "are"
            self._say(f"{self._there} {verb} in {tilde(self._path)} already, {rest}")
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        self._sum_up()

    def began(self, cell: Cell, answer: Answer) -> None:
        self._asked.add(cell.number)  # again, where this is a further try
        self._advance()

    def answered(self, cell: Cell, answer: Answer) -> None:
        """Raises ResultError."""
        self._asked.discard(cell.number)
        row = self._results.add(cell, answer)
        self._there += 1
        self._tokens += answer.tokens or 0
        self._started = min(answer.sent, self._started or answer.sent)
        self._ended = max(self._ended, answer.end or 0.0)
        broken = broken_in(row)
        self.not_passed += bool(broken)
        if broken or not self._console.is_terminal:
            verdict = f", fails {', '.join(broken)}" if broken else ""
            self._say(f"{self._place}  {cell.label}: {outcome(answer)}{verdict}")
        self._advance()

    def failed(self, cell: Cell, error: ClientError) -> None:
        self._asked.discard(cell.number)
        self.refused += 1
        self._say(f"cell {cell.number}, {cell.label}: {error}")
        self._advance()

    @property
    def _aggregate(self) -> Aggregate:
        return Aggregate(self._tokens, self._ended - (self._started or self._ended))

    @property
    def _place(self) -> str:
        return f"{self._there} of {self._results.count}"

    def _advance(self) -> None:
        news = [f"{len(self._asked)} in flight"]
        news += [f"{self._aggregate.rate:.1f} tok/s"] if self._tokens else []
        news += [f"{self.not_passed} fail"] if self.not_passed else []
        news += [f"{self.refused} refused"] if self.refused else []
        self._bar.update(self._task, completed=self._there, description=", ".join(news))

    def _sum_up(self) -> None:
        total = self._aggregate
        if total.tokens:
            self._say(f"{total.rate:.1f} tok/s = {total.tokens} tok / {total.seconds:.2f} s")
        verdict = f", {self.not_passed} of them fail" if self.not_passed else ""
        self._say(f"{self._place} cells are in {tilde(self._path)}{verdict}")
        if self._there < self._results.count:
            self._say("the same command asks for the rest")

    def _say(self, line: str) -> None:
        self._console.print(Text(drawable(line)), soft_wrap=True)
