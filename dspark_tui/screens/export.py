"""Where to write an experiment's answers, in the format the name asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Input, Static

from dspark_tui.experiments.result_table import ResultError, ResultTable, Row
from dspark_tui.paths import tilde
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.form import Form
from dspark_tui.text.counted import counted
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.fields import LineBox


class PathLine(LineBox):
    KEYS: ClassVar = {"enter": "write()", "escape": "leave()", "ctrl+c": "leave()"}


class ExportForm(Form[Path | None]):
    """Gives the file that was written, or None when left."""

    CSS_PATH: ClassVar = [*Form.CSS_PATH, "../styles/experiment.tcss"]
    BINDINGS: ClassVar = [Binding("escape,ctrl+c", "leave")]
    KEY_HELP: ClassVar = (("Enter", "write the file"), ("Esc ^C", "write none"))

    def __init__(self, rows: Sequence[Row], results: ResultTable) -> None:
        """results: the table the rows are in already."""
        super().__init__()
        self._rows, self._results = rows, results

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = f"export {counted(len(self._rows), 'answer')} as shown"
            sheet.border_subtitle = "Enter write   Esc leave"
            name = f"{self._results.path.name.partition('.')[0]}.export.csv"
            yield PathLine(name, id="path", compact=True, select_on_focus=False)
            yield Static("The name's end chooses: .csv, .jsonl or .md", classes="hint")
            yield Static("", id="problem", markup=False)

    def on_mount(self) -> None:
        self.begin_in("#path")

    def on_input_changed(self) -> None:
        self._complain("")

    async def action_write(self) -> None:
        path = self._path
        if not path.parent.is_dir():
            self._complain(f"there is no folder {tilde(path.parent)}")
            return
        try:
            table = ResultTable(path, self._results.columns)
            there = await asyncio.to_thread(table.rows)
        except ResultError as error:
            self._complain(str(error))
            return
        if path.resolve() == self._results.path.resolve():
            self._complain("that is where they are already; choose another file")
        elif there:
            question = f"{tilde(path)} holds {counted(len(there), 'answer')}. Write over it?"
            self.app.push_screen(Confirm(drawable(question), "write"), self._write_if)
        else:
            await self._write()

    async def _write_if(self, confirmed: bool | None) -> None:
        if confirmed:
            await self._write()

    async def _write(self) -> None:
        table = ResultTable(self._path, self._results.columns)
        try:
            await asyncio.to_thread(table.replace, self._rows)
        except ResultError as error:
            self._complain(str(error))
        else:
            self.dismiss(self._path)

    def action_leave(self) -> None:
        self.dismiss(None)

    @property
    def _path(self) -> Path:
        return Path(self.query_one("#path", Input).value.strip()).expanduser()

    def _complain(self, text: str) -> None:
        self.query_one("#problem", Static).update(drawable(text))
