"""An experiment the workbench runs: the same runner and the same file as without a screen."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from dspark_tui.batch.live import Aggregate
from dspark_tui.config import Settings
from dspark_tui.conversation.answer import Answer, aggregate
from dspark_tui.engines.client import EngineClient
from dspark_tui.engines.client_errors import ClientError
from dspark_tui.engines.link import EngineLink
from dspark_tui.experiments.board import Board, Entry, State
from dspark_tui.experiments.experiment import Cell, Experiment
from dspark_tui.experiments.result_table import ResultError, ResultTable
from dspark_tui.experiments.results import Results
from dspark_tui.experiments.rows import RowMaker, columns_of
from dspark_tui.experiments.run import run_cells, slots_of

log = logging.getLogger(__name__)


class Trial:
    """Runs until all cells are answered or the task is cancelled, and again for those that miss.

    running: also while it waits for the engine. problem: one line on why it ended early, or "".
    """

    def __init__(self, experiment: Experiment, out: Path, link: EngineLink) -> None:
        """out: the file of the results. Raises ResultError if it can't be that."""
        self.link = link
        self.table = ResultTable(out, columns_of(experiment))
        self.table.rows()
        self.board = Board(experiment)
        self.running = False
        self.problem = ""
        self._answers: list[Answer] = []
        self._results: Results | None = None

    @property
    def aggregate(self) -> Aggregate | None:
        """Of the answers of the latest run."""
        return aggregate(self._answers)

    @property
    def complete(self) -> bool:
        """Are all cells answered?"""
        return self.board.count(State.ANSWERED) == self.board.experiment.count

    async def run(self) -> None:
        """Ask for what is missing. What goes wrong becomes the problem."""
        self.running, self.problem, self._answers = True, "", []
        try:
            self.link.revive()
            await self.link.ready.wait()
            await self._run(self.link.client)
        except (ClientError, ResultError) as error:
            self.problem = str(error)
        except Exception:
            log.exception("the experiment can't go on")
            self.problem = "the experiment broke off; the log says why"
        finally:
            self.running = False
            self.board.stopped()

    async def _run(self, client: EngineClient) -> None:
        model = await client.first_model()
        self._results = await asyncio.to_thread(self._opened, model)
        for cell, row in self._results.rows:
            self.board.answered(cell, row)
        slots = await slots_of(client) or Settings().max_batch
        await run_cells(client, self._results.missing, slots, self)

    def _opened(self, model: str) -> Results:
        maker = RowMaker(self.board.experiment, model)
        return Results(maker, self.table, self.table.rows())

    def began(self, cell: Cell, answer: Answer) -> None:
        self.board.begun(cell, answer)

    def answered(self, cell: Cell, answer: Answer) -> None:
        """Raises ResultError."""
        assert self._results is not None
        self.board.answered(cell, self._results.add(cell, answer))
        self._answers.append(answer)

    def failed(self, cell: Cell, error: ClientError) -> None:
        self.board.refused(cell, str(error))

    def rate(self, entry: Entry, rating: int | None) -> None:
        """Rate an answer that is there. Raises ResultError."""
        if self._results is not None and entry.row is not None:
            self._results.rate(entry.row, rating)
            self.board.touched()
