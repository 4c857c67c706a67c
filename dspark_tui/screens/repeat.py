"""One prompt asked several times: which answers come, and how often."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.comparison.repeats import Group, Repeats, groups, problems
from dspark_tui.engines.engines import Engines
from dspark_tui.screens.csv_export import export
from dspark_tui.screens.dialog import Dialog
from dspark_tui.screens.repeat_table import (
    CSV_COLUMNS,
    csv_rows,
    entry,
    heading,
    progress,
    trouble,
)
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.batch_panel import BatchPanel, Mode
from dspark_tui.widgets.line import Line
from dspark_tui.widgets.transcript import Transcript

PERIOD = 0.25
LEAST, USUAL, MOST = 2, 5, 25
PANEL_FROM = 24
"""Rows; a lower terminal has none for the batch."""


class Repeat(Dialog[None]):
    """What the prompt brought when it was repeated last, else how often it is to be; then the
    answers as they come."""

    CSS_PATH: ClassVar = [*Dialog.CSS_PATH, "../styles/comparing.tcss"]
    BINDINGS: ClassVar = [
        Binding("escape,ctrl+c,q", "leave"),
        Binding("plus,equals_sign,right", "times(1)"),
        Binding("minus,left", "times(-1)"),
        *(Binding(str(digit), f"digit({digit})") for digit in range(10)),
        Binding("s", "same_seed"),
        Binding("enter", "start", priority=True),
        Binding("r", "again"),
        Binding("pageup", "read(-1)", priority=True),
        Binding("pagedown", "read(1)", priority=True),
        Binding("y", "copy"),
        Binding("w", "export"),
    ]
    KEY_HELP: ClassVar = (
        ("+ = Right", "before it starts: once more"),
        ("- Left", "once less"),
        ("0–9", "that often"),
        ("s", "always the same seed, or each time another"),
        ("Enter", "start"),
        ("Up Down", "highlight another answer"),
        ("PgUp PgDn", "read on in it, or back"),
        ("y", "copy it"),
        ("w", "write all as CSV, beside where you started"),
        ("r", "once all have ended: ask again"),
        ("Esc q ^C", "stop what runs; once nothing does, close"),
    )

    def __init__(self, repeats: Repeats, engines: Engines, glyphs: Glyphs) -> None:
        super().__init__()
        self._repeats, self._engines, self._glyphs = repeats, engines, glyphs
        self._asked = ""  # when, if that was before this screen
        if repeats.attempts:
            asked = time.localtime(repeats.attempts[0].turn.created)
            self._asked = time.strftime("%d %b %H:%M", asked)
        self._times, self._same = USUAL, False
        self._typed = 0  # the number so far
        self._shown: dict[int, Group] = {}  # by their places in the list
        self._reading: str | None = None
        self._drawn: tuple[int, int] | None = None
        self._plan = Line(id="plan")
        self._state = Line(id="state")
        self._list = OptionList(compact=True)
        self._answer = Transcript(glyphs=glyphs)
        self._panel = BatchPanel(glyphs=glyphs)

    def compose(self) -> ComposeResult:
        prompt = f"{self._glyphs.prompt} {drawable(self._repeats.prompt)}"
        with Vertical(classes="sheet tall") as sheet:
            sheet.border_title = "repeat"
            yield Static(prompt, id="prompt", markup=False)
            yield self._plan
            yield self._state
            yield self._list
            yield self._answer
            yield self._panel

    def on_resize(self) -> None:
        self._fit()

    def on_mount(self) -> None:
        self._answer.can_focus = False
        self._list.focus()
        self.set_interval(PERIOD, self._draw)
        self._draw()

    # ---- drawing

    def _fit(self) -> None:
        """No batch where there is no room for one, nor any left of what was asked long ago."""
        roomy = self.size.height >= PANEL_FROM and not self._asked
        self._panel.mode = Mode.SMALL if roomy else Mode.OFF

    def _describe(self) -> None:
        """The lines that say what was asked or is to be, and what can be done now."""
        panes = len(self._repeats.panes)
        of = f"{self._times} times" + (f", {panes} panes" if panes > 1 else "")
        seeds = "always the same seed" if self._same else "each time another seed"
        plan = f"{of}: {self._times * panes} requests in one batch, {seeds}"
        self._plan.update(f"asked {self._asked}" if self._asked else plan)
        sheet = self.query_one(".sheet")
        if not self._repeats.attempts:
            self._state.update("Enter starts   - + or a number: how often   s which seeds")
            sheet.border_subtitle = "Esc leaves"
        elif self._repeats.running:
            sheet.border_subtitle = "Esc stops"
        else:
            sheet.border_subtitle = "PgUp PgDn read   y copy   w CSV   r again   Esc closes"

    def _draw(self) -> None:
        repeats = self._repeats
        link = self._engines.of(repeats.panes[0].params.engine)
        self._panel.show(link.live, link.now())
        drawn = (len(repeats.attempts), sum(attempt.over for attempt in repeats.attempts))
        if drawn != self._drawn:
            self._drawn = drawn
            self._describe()
            self._list_groups()
        if repeats.attempts:
            waiting = repeats.running and not link.ready.is_set()
            waits = f"   waits for the engine  {drawable(link.problem)}" if waiting else ""
            self._state.update(progress(repeats) + waits)

    def _list_groups(self) -> None:
        """Rebuild the list; the highlighted answer stays highlighted."""
        before = self._highlighted()
        self._shown, options = {}, list[Option]()
        for pane in self._repeats.panes:
            if attempts := self._repeats.of(pane):
                options.append(Option(heading(self._repeats, pane), disabled=True))
            for group in groups(attempts):
                self._shown[len(options)] = group
                options.append(Option(entry(group)))
            for problem, times in problems(attempts).items():
                options.append(Option(trouble(problem, times), disabled=True))
        self._list.set_options(options)
        self._list.styles.max_height = max(1, len(options))  # the answer has the rest
        same = (at for at, group in self._shown.items() if before and group.text == before.text)
        self._list.highlighted = next(same, next(iter(self._shown), None))

    def _highlighted(self) -> Group | None:
        at = self._list.highlighted
        return None if at is None else self._shown.get(at)

    def on_option_list_option_highlighted(self) -> None:
        group = self._highlighted()
        if group is not None and group.text != self._reading:
            self._reading = group.text
            self._answer.clear()
            self._answer.begin_answer()
            self._answer.append(group.text)
            self._answer.end_answer()
            self.call_after_refresh(self._answer.go_to_start)

    # ---- actions

    def action_times(self, step: int) -> None:
        if not self._repeats.attempts:
            self._times, self._typed = min(MOST, max(LEAST, self._times + step)), 0
            self._describe()

    def action_digit(self, digit: int) -> None:
        """One more digit of how often; a number that gets too large begins anew with it."""
        if not self._repeats.attempts:
            typed = self._typed * 10 + digit
            self._typed = typed if typed <= MOST else digit
            self._times = max(LEAST, self._typed)
            self._describe()

    def action_same_seed(self) -> None:
        if not self._repeats.attempts:
            self._same = not self._same
            self._describe()

    def action_start(self) -> None:
        if not self._repeats.attempts:
            self._repeats.ask(self._times, same=self._same)
            self._draw()

    def action_again(self) -> None:
        """Back to how often it is to be asked; the answers that are there stay with the session."""
        if not self._repeats.running:
            self._asked, self._reading = "", None
            self._fit()
            self._repeats.forget()
            self._answer.clear()
            self._draw()

    def action_leave(self) -> None:
        """Stop what runs; pressed again, close."""
        if self._repeats.running:
            self._repeats.stop()
            self._draw()
        else:
            self.dismiss(None)

    def action_read(self, direction: int) -> None:
        rows = max(1, self._answer.size.height // 2)
        self._answer.scroll_relative(y=direction * rows, animate=False)

    def action_copy(self) -> None:
        if (group := self._highlighted()) is not None:
            self.app.copy_to_clipboard(group.text)

    def action_export(self) -> None:
        if self._repeats.attempts:
            export(self, "repeats", CSV_COLUMNS, csv_rows(self._repeats))
