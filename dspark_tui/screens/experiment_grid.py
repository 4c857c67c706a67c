"""An experiment under way: its cells as a grid, beside the live batch that answers them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.widgets import Input

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.experiments.board import Entry, State
from dspark_tui.experiments.result_table import ResultError
from dspark_tui.experiments.trial import Trial
from dspark_tui.paths import tilde
from dspark_tui.screens.cell import CellScreen
from dspark_tui.screens.dialog import KeyHelp
from dspark_tui.screens.experiment_keys import (
    BAR,
    COMPLETE_BAR,
    HELP,
    KEYS,
    RUNNING_BAR,
    STOPPED_BAR,
)
from dspark_tui.screens.export import ExportForm
from dspark_tui.text.counted import counted
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.batch_panel import BatchPanel, Mode
from dspark_tui.widgets.fields import LineBox
from dspark_tui.widgets.grid_view import GridView
from dspark_tui.widgets.key_lines import KeyLines
from dspark_tui.widgets.keys import act_on_key
from dspark_tui.widgets.line import Line

LOOK_PERIOD = 0.2
"""Seconds between two looks at the cells and at the engine."""

WORKERS = "experiment"
"""The group of the one task that runs it; it belongs to the app, so that it outlives the screen."""


class FilterLine(LineBox):
    KEYS: ClassVar = {
        "enter": "close_filter()",
        "escape": "drop_filter()",
        "ctrl+c": "drop_filter()",
        "up": "move(-1, 0)",
        "down": "move(1, 0)",
    }


class ExperimentGrid(KeyHelp[bool]):
    """Gives True when the person wants to set up another experiment."""

    CSS_PATH: ClassVar = ["../styles/experiment.tcss"]
    KEY_HELP = HELP
    AUTO_FOCUS: ClassVar = ""  # keys are the grid's, unless the filter is open

    def __init__(self, trial: Trial, glyphs: Glyphs) -> None:
        super().__init__()
        self._trial, self._link, self._glyphs = trial, trial.link, glyphs
        self._grid = GridView(trial.board, glyphs)
        self._panel = BatchPanel(glyphs=glyphs)
        self._keys = KeyLines(BAR, id="keys")
        self._mode: Mode | None = None  # of the panel; None lets the terminal's height decide
        self._drawn = -1

    def compose(self) -> ComposeResult:
        yield Line(id="heading")
        yield self._grid
        yield Line(id="detail")
        yield FilterLine(id="filter", compact=True, placeholder="in the answer or its inputs")
        yield self._panel
        yield self._keys

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self._look()
        self.set_interval(LOOK_PERIOD, self._look)

    def on_resize(self) -> None:
        height = self.app.size.height
        fitting = Mode.MEDIUM if height >= 30 else Mode.SMALL if height >= 20 else Mode.OFF
        self._panel.mode = self._mode or fitting

    async def on_key(self, event: events.Key) -> None:
        if self.focused is None:
            await act_on_key(self, event, KEYS)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._see(text=event.value)

    def on_grid_view_opened(self) -> None:
        self.action_open()

    def on_grid_view_moved(self) -> None:
        self._describe()

    # ---- drawing

    def _look(self) -> None:
        """Show what came since the last look."""
        board = self._trial.board
        if board.version != self._drawn or self._trial.running:
            self._drawn = board.version
            self._grid.show()
        self.query_one("#heading", Line).update(drawable(self._heading()))
        self._keys.show(self._bar)
        self._panel.show(self._link.live, self._link.now())

    def _heading(self) -> str:
        trial, board = self._trial, self._trial.board
        answered, refused = board.count(State.ANSWERED), board.count(State.REFUSED)
        parts = [f"{answered} of {board.experiment.count}", self._condition]
        parts += [f"{board.broken} fail"] if board.broken else []
        parts += [f"{refused} refused"] if refused else []
        total = trial.aggregate
        if total is not None and total.tokens:
            tokens = f"{total.tokens:,} tok {self._glyphs.divide} {total.seconds:.1f} s"
            parts.append(f"{tokens} = {total.rate:.1f} tok/s")
        parts.append(tilde(trial.table.path))
        return " " + "   ".join(parts)

    @property
    def _condition(self) -> str:
        """What the experiment is doing, or why it does nothing."""
        trial, link = self._trial, self._link
        if trial.running and not link.ready.is_set():
            return f"waiting for the engine{f': {link.problem}' if link.problem else ''}"
        if trial.running:
            return "running"
        if trial.problem:
            return f"{trial.problem} (r resumes)"
        return "complete" if trial.complete else "stopped, r resumes"

    @property
    def _bar(self) -> tuple[tuple[str, str], ...]:
        if self._trial.running:
            return RUNNING_BAR
        return COMPLETE_BAR if self._trial.complete else STOPPED_BAR

    def _describe(self) -> None:
        """Redo the lines around the grid: how it is seen, and the cell under the cursor."""
        grid, board = self._grid, self._trial.board
        view, count = grid.view, len(board.inputs)
        shown = counted(count, "row")
        seen = [shown if view.whole else f"{len(grid.rows)} of {shown}"]
        seen += [f"sorted by {view.order}"] if count > 1 else []
        seen += ["failed only"] * view.failed + ["unrated only"] * view.unrated
        seen += [f"with {view.text!r}"] if view.text else []
        grid.border_title = drawable("   ".join(seen))
        grid.border_subtitle = grid.columns_in_sight
        entry = grid.entry
        self.query_one("#detail", Line).update(drawable(_detail(entry)) if entry else "")

    def _see(self, **changes: object) -> None:
        self._grid.show(replace(self._grid.view, **changes))

    # ---- actions: moving and seeing

    def action_move(self, down: int, right: int) -> None:
        self._grid.move(down, right)

    def action_page(self, pages: int) -> None:
        self._grid.move(pages * self._grid.page, 0)

    def action_end(self, direction: int) -> None:
        self._grid.move(direction * len(self._grid.rows), 0)

    def action_open(self) -> None:
        if self._grid.entry is not None:
            self.app.push_screen(CellScreen(self._grid, self._glyphs, self.action_rate))

    def action_sort(self) -> None:
        self._see(order=self._grid.view.order.next)

    def action_only_failed(self) -> None:
        self._see(failed=not self._grid.view.failed)

    def action_only_unrated(self) -> None:
        self._see(unrated=not self._grid.view.unrated)

    def action_filter(self) -> None:
        line = self.query_one("#filter")
        line.display = True
        line.focus()

    def action_close_filter(self) -> None:
        """Go on with what the filter shows."""
        self.query_one("#filter").display = False
        self.set_focus(None)

    def action_drop_filter(self) -> None:
        self.query_one("#filter", Input).value = ""
        self.action_close_filter()

    def action_panel(self) -> None:
        self._mode = self._panel.mode = self._panel.mode.next

    # ---- actions: answers

    def action_rate(self, rating: int) -> None:
        """0 takes the rating back."""
        entry = self._grid.entry
        if entry is None or entry.row is None:
            self._say("only answers are rated")
            return
        try:
            self._trial.rate(entry, rating or None)
        except ResultError as error:
            self._say(str(error))
        self._look()

    def action_export(self) -> None:
        view, board = self._grid.view, self._trial.board
        entries = [entry for entry in board.entries(self._grid.rows) if view.wants(entry)]
        rows = [entry.row for entry in entries if entry.row is not None]
        if rows:
            self.app.push_screen(ExportForm(rows, self._trial.table), self._exported)
        else:
            self._say("no answers to export")

    def _exported(self, path: Path | None) -> None:
        if path is not None:
            self._say(f"written to {tilde(path)}")

    def action_run(self) -> None:
        """Ask for what is missing."""
        if not self._trial.running and not self._trial.complete:
            task = self._trial.run()
            self.app.run_worker(task, group=WORKERS, exclusive=True, exit_on_error=False)

    def action_stop(self) -> None:
        if self._trial.running:
            self.app.workers.cancel_group(self.app, WORKERS)
            self._say("stopped; the answers so far are kept, r asks for the rest")
        else:
            self._say("nothing is running; Esc goes back")

    def action_another(self) -> None:
        if self._trial.running:
            self._say("this one is running; ^C stops it")
        else:
            self.dismiss(True)

    def _say(self, text: str) -> None:
        self.notify(text, timeout=3, markup=False)


def _detail(entry: Entry) -> str:
    """A cell in one line."""
    words = " ".join(entry.problem.split() or entry.text[:1000].split())
    nothing = "answered without a word" if entry.state is State.ANSWERED else entry.state
    return f" {entry.cell.label}: {words or nothing}"
