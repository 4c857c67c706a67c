"""One prompt asked several times: which answers come, and how often."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.comparison.repeats import Group, Repeats, groups, problems
from dspark_tui.conversation.run import SEED_BITS
from dspark_tui.conversation.session import Conversation
from dspark_tui.engines.engines import Engines
from dspark_tui.screens.csv_export import export
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
from dspark_tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from dspark_tui.engines.client import EngineClient

PERIOD = 0.25
LEAST, USUAL, MOST = 2, 5, 25
PANEL_FROM = 24
"""Rows; a lower terminal has none for the batch."""


class Repeat(ModalScreen[None]):
    """First how many times, then the answers as they come."""

    BINDINGS: ClassVar = [
        Binding("escape,ctrl+c,q", "leave"),
        Binding("plus,equals_sign,right", "times(1)"),
        Binding("minus,left", "times(-1)"),
        Binding("s", "same_seed"),
        Binding("enter", "start", priority=True),
        Binding("pageup", "read(-1)", priority=True),
        Binding("pagedown", "read(1)", priority=True),
        Binding("y", "copy"),
        Binding("w", "export"),
    ]

    def __init__(
        self, prompt: str, panes: Sequence[Conversation], engines: Engines, glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._prompt, self._panes, self._engines, self._glyphs = prompt, panes, engines, glyphs
        self._times, self._same = USUAL, False
        self._seed = secrets.randbits(SEED_BITS)
        self._repeats: Repeats | None = None
        self._asking: Worker[None] | None = None
        self._shown: dict[int, Group] = {}  # by their places in the list
        self._reading: str | None = None
        self._counted = -1
        self._plan = Static(id="plan", markup=False)
        self._state = Static(id="state", markup=False)
        self._list = OptionList(compact=True)
        self._answer = Transcript(glyphs=glyphs)
        self._panel = BatchPanel(glyphs=glyphs)

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet tall") as sheet:
            sheet.border_title = "repeat"
            yield Static(
                f"{self._glyphs.prompt} {drawable(self._prompt)}", id="prompt", markup=False
            )
            yield self._plan
            yield self._state
            yield self._list
            yield self._answer
            yield self._panel

    def on_resize(self) -> None:
        self._panel.mode = Mode.SMALL if self.size.height >= PANEL_FROM else Mode.OFF

    def on_mount(self) -> None:
        self._answer.can_focus = False
        self._list.focus()
        self.set_interval(PERIOD, self._draw)
        self._describe()
        self._draw()

    # ---- drawing

    def _describe(self) -> None:
        """The part that only changes at the person's wish."""
        panes = len(self._panes)
        of = f"{self._times} times" + (f", {panes} panes" if panes > 1 else "")
        seeds = "always the same seed" if self._same else "each time another seed"
        self._plan.update(f"{of}: {self._times * panes} requests in one batch, {seeds}")
        sheet = self.query_one(".sheet")
        if self._repeats is None:
            self._state.update("Enter starts   - + how often   s which seeds")
            sheet.border_subtitle = "Esc leaves"
        elif self._asking is not None:
            sheet.border_subtitle = "Esc stops"
        else:
            sheet.border_subtitle = "PgUp PgDn read   y copy   w CSV   Esc closes"

    def _draw(self) -> None:
        link = self._engines.of(self._panes[0].params.engine)
        self._panel.show(link.live, link.now())
        repeats = self._repeats
        if repeats is None:
            return
        waits = "" if link.ready.is_set() else f"   waits for the engine  {drawable(link.problem)}"
        self._state.update(progress(repeats) + waits)
        done = sum(attempt.over for attempt in repeats.attempts)
        if done != self._counted:
            self._counted = done
            self._list_groups(repeats)

    def _list_groups(self, repeats: Repeats) -> None:
        """Rebuild the list; the highlighted answer stays highlighted."""
        before = self._highlighted()
        self._shown, options = {}, list[Option]()
        for pane in repeats.panes:
            attempts = repeats.of(pane)
            options.append(Option(heading(repeats, pane), disabled=True))
            for group in groups(attempts):
                self._shown[len(options)] = group
                options.append(Option(entry(group)))
            for problem, times in problems(attempts).items():
                options.append(Option(trouble(problem, times), disabled=True))
        self._list.set_options(options)
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

    # ---- running

    async def _run(self, repeats: Repeats) -> None:
        try:
            await repeats.run(self._client)
        finally:
            self._asking = None
            self._describe()

    def _first_seed(self, pane: Conversation) -> int | None:
        """The pane's own, else one for all panes, so that its answer can be had again.

        None for a server that hides its batch: some leave it as soon as a request has a seed.
        """
        if pane.params.seed is not None:
            return pane.params.seed
        batch_hidden = self._engines.of(pane.params.engine).batch_hidden
        return None if batch_hidden and not self._same else self._seed

    async def _client(self, pane: Conversation) -> EngineClient:
        link = self._engines.of(pane.params.engine)
        link.revive()
        await link.ready.wait()
        return link.client

    # ---- actions

    def action_times(self, step: int) -> None:
        if self._repeats is None:
            self._times = min(MOST, max(LEAST, self._times + step))
            self._describe()

    def action_same_seed(self) -> None:
        if self._repeats is None:
            self._same = not self._same
            self._describe()

    def action_start(self) -> None:
        if self._repeats is None:
            self._repeats = Repeats(
                self._prompt, self._panes, self._times, self._first_seed, same=self._same
            )
            self._asking = self.run_worker(self._run(self._repeats), exit_on_error=False)
            self._describe()

    def action_leave(self) -> None:
        """Stop what runs; pressed again, close."""
        if self._asking is not None:
            self._asking.cancel()
        else:
            self.dismiss(None)

    def action_read(self, direction: int) -> None:
        rows = max(1, self._answer.size.height // 2)
        self._answer.scroll_relative(y=direction * rows, animate=False)

    def action_copy(self) -> None:
        if (group := self._highlighted()) is not None:
            self.app.copy_to_clipboard(group.text)

    def action_export(self) -> None:
        if self._repeats is not None:
            export(self, "repeats", CSV_COLUMNS, csv_rows(self._repeats))
