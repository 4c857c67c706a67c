"""What to run: an experiment's file, or the draft with a table for its variables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Label, OptionList, Static

from dspark_tui.conversation.session import Conversation
from dspark_tui.engines.link import EngineLink
from dspark_tui.experiments.draft import DRAFT, from_draft
from dspark_tui.experiments.experiment import Experiment
from dspark_tui.experiments.file import load
from dspark_tui.experiments.inputs import PRODUCT, ZIP
from dspark_tui.experiments.paths import candidates, completed, is_experiment, is_table
from dspark_tui.experiments.result_table import ResultError
from dspark_tui.experiments.template import variables_of
from dspark_tui.experiments.trial import Trial
from dspark_tui.screens.form import Form
from dspark_tui.text.foreign import drawable
from dspark_tui.toml_source import FileError, Problem
from dspark_tui.widgets.fields import LineBox

PAUSE = 0.15
"""Seconds without a key before what is typed is looked up."""


class FormLine(LineBox):
    KEYS: ClassVar = {
        "enter": "start()",
        "escape": "leave()",
        "ctrl+c": "leave()",
        "tab": "app.focus_next()",
        "down": "app.focus_next()",
        "shift+tab": "app.focus_previous()",
        "up": "app.focus_previous()",
    }


class FileLine(FormLine):
    """Chooses among the paths below it."""

    KEYS: ClassVar = FormLine.KEYS | {
        "enter": "choose_or_start()",
        "tab": "complete()",
        "down": "highlight(1)",
        "up": "highlight(-1)",
    }


class CombineLine(FormLine):
    KEYS: ClassVar = FormLine.KEYS | dict.fromkeys(("space", "left", "right"), "combine()")


class ExperimentForm(Form[Trial | None]):
    """Says how many requests it comes to and gives the experiment, or None when left."""

    CSS_PATH: ClassVar = [*Form.CSS_PATH, "../styles/experiment.tcss"]
    BINDINGS: ClassVar = [Binding("escape,ctrl+c", "leave")]
    KEY_HELP: ClassVar = (
        ("Enter", "take the path that is highlighted, else start"),
        ("Tab", "complete the path, else to the next field"),
        ("Down Up", "through the paths, then through the fields"),
        ("Shift+Tab", "to the field before"),
        ("Space Left Right", "in Combine: the other way to combine"),
        ("Esc ^C", "leave; nothing is started"),
    )

    def __init__(self, draft: str, panes: Sequence[Conversation], link: EngineLink) -> None:
        """panes: whose parameters are the draft's parameter sets. link: to the engine to ask."""
        super().__init__()
        self._draft, self._panes, self._link = draft, panes, link
        self._candidates: list[str] = []  # as they are listed
        self._suggested = ""  # the results' file as it was filled in last

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = "experiment"
            sheet.border_subtitle = "Tab completes   Enter start   Esc leave"
            yield Static(self._offer(), id="offer", markup=False)
            with Horizontal(classes="field"):
                yield Label("File")
                none = "none: the draft as it is" if self._draft.strip() else ""
                yield FileLine(id="file", compact=True, placeholder=none)
            yield OptionList(id="candidates", compact=True)
            with Horizontal(classes="field", id="combine-field"):
                yield Label("Combine")
                yield CombineLine(ZIP, id="combine", compact=True)
                yield Label("zip: row by row, product: each with each", classes="hint")
            with Horizontal(classes="field"):
                yield Label("Results")
                yield FormLine(id="results", compact=True)
            yield Static("", id="size", markup=False)
            yield Static("", id="problem", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self.begin_in("#file")
        self._look_up()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#problem", Static).update("")
        if event.input.id != "results":
            self.query_one(OptionList).highlighted = None
            self._look_up()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    # ---- actions

    def action_highlight(self, step: int) -> None:
        """Go through the paths; past the last one to the next field."""
        paths = self.query_one(OptionList)
        at = -1 if paths.highlighted is None else paths.highlighted
        if 0 <= at + step < paths.option_count:
            paths.highlighted = at + step
        elif step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_complete(self) -> None:
        """Take the path that is highlighted, else all that is certain, else go on."""
        paths, typed = self.query_one(OptionList), self._value("file")
        if paths.highlighted is not None:
            self._choose(paths.highlighted)
        elif (longer := completed(typed)) != typed:
            self._fill("file", longer)
        else:
            self.focus_next()

    async def action_choose_or_start(self) -> None:
        highlighted = self.query_one(OptionList).highlighted
        if highlighted is None:
            await self.action_start()
        else:
            self._choose(highlighted)

    def action_combine(self) -> None:
        self._fill("combine", PRODUCT if self._value("combine") == ZIP else ZIP)

    async def action_start(self) -> None:
        try:
            experiment = await asyncio.to_thread(self._experiment)
            out = Path(self._value("results")).expanduser()
            self.dismiss(await asyncio.to_thread(Trial, experiment, out, self._link))
        except (FileError, ResultError) as error:
            self.query_one("#problem", Static).update(drawable(str(error)))

    def action_leave(self) -> None:
        self.dismiss(None)

    # ---- what is typed

    def _look_up(self) -> None:
        file = self._file
        self._suggest_results(file)
        self.query_one("#combine-field").display = is_table(file)
        self.run_worker(self._show_size(), group="look up", exclusive=True, exit_on_error=False)

    async def _show_size(self) -> None:
        """Say what the form comes to so far; a path that isn't whole yet is no mistake."""
        await asyncio.sleep(PAUSE)
        typed = self._value("file")
        self._show_candidates(await asyncio.to_thread(candidates, typed), typed)
        size = problem = ""
        if self._file.is_file() or (not typed and self._draft.strip()):
            try:
                size = (await asyncio.to_thread(self._experiment)).size
            except FileError as error:
                problem = str(error) if typed else ""
        self.query_one("#size", Static).update(size)
        self.query_one("#problem", Static).update(drawable(problem))

    def _experiment(self) -> Experiment:
        """Raises FileError."""
        file = self._file
        if is_experiment(file):
            return load(file)
        typed = self._value("file")
        if typed and not is_table(file):
            raise FileError(Problem(file, 0, "", "is neither an experiment (.toml) nor a table"))
        if not self._draft.strip():
            what = "is empty: choose an experiment, or type a prompt first"
            raise FileError(Problem(DRAFT, 0, "", what))
        table = file if typed else None
        return from_draft(self._draft, self._panes, table, self._value("combine"))

    def _show_candidates(self, paths: Sequence[str], typed: str) -> None:
        shown = [path for path in paths if path != typed]
        offered = self.query_one(OptionList)
        offered.clear_options()
        offered.add_options([Content(drawable(path)) for path in shown])
        offered.display = bool(shown)
        self._candidates = shown

    def _choose(self, index: int) -> None:
        self._fill("file", self._candidates[index])

    def _suggest_results(self, file: Path) -> None:
        """The same file as without a screen, unless the person wants another."""
        if self._value("results") == self._suggested:
            self._suggested = f"{file.stem or 'draft'}.results.csv"
            self._fill("results", self._suggested)

    def _offer(self) -> str:
        """What there is to choose from."""
        if not self._draft.strip():
            return "A file with an experiment. A prompt that is typed first can be run as one, too."
        count = len(self._panes)
        sets = f"the parameters of {count} panes" if count > 1 else "this pane's parameters"
        names = ", ".join(dict.fromkeys(variables_of(self._draft)))
        rows = f"for each row of a table with {names}" if names else "for each row of a table"
        return drawable(f"A file with an experiment; or the draft with {sets}, {rows}.")

    @property
    def _file(self) -> Path:
        return Path(self._value("file")).expanduser()

    def _value(self, id: str) -> str:
        return self.query_one(f"#{id}", Input).value.strip()

    def _fill(self, id: str, value: str) -> None:
        line = self.query_one(f"#{id}", Input)
        line.value = value
        line.cursor_position = len(value)
