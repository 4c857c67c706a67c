"""The main screen: panes, the live batch and the composer, and every action on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.widgets import Static
from textual.widgets.text_area import Selection

from dspark_tui.actions import Context
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.comparison.blind import engines_hidden, hidden
from dspark_tui.conversation.pastes import COLLAPSE_OVER
from dspark_tui.conversation.runs import Runs
from dspark_tui.conversation.session import Conversation, TurnStatus
from dspark_tui.engines.engines import Engines
from dspark_tui.keymap import Keymap
from dspark_tui.screens.comparing import Comparing
from dspark_tui.screens.composing import Composing
from dspark_tui.screens.conversing import Conversing
from dspark_tui.screens.engining import Engining
from dspark_tui.screens.exporting import Exporting
from dspark_tui.screens.finding import Finding
from dspark_tui.screens.keeping import Keeping
from dspark_tui.screens.quitting import Quitting
from dspark_tui.storage.workspaces import Opened, Workspaces
from dspark_tui.text.counted import counted
from dspark_tui.widgets.batch_panel import Mode
from dspark_tui.widgets.composer import Composer
from dspark_tui.widgets.key_bar import KeyBar
from dspark_tui.widgets.keys import act_on_key
from dspark_tui.widgets.lane_picker import LanePicker
from dspark_tui.widgets.pane import Pane
from dspark_tui.widgets.pane_grid import PaneGrid
from dspark_tui.widgets.status_bar import StatusBar
from dspark_tui.widgets.tab_strip import TabStrip

if TYPE_CHECKING:
    from dspark_tui.conversation.run import Run
    from dspark_tui.engines.link import EngineLink

TEXT_PERIOD = 0.05
"""Seconds between two looks at what the runs brought."""

GROUPS = 2
"""Panes are looked at in turns: a frame with half the panes keeps a key waiting half as long."""

FIGURES_EVERY = 5
"""Looks between two updates of the figures, in the same frame as the text."""

QUIET_PERIOD = 0.25
"""Seconds between two looks at the engine while no pane runs: others may be using it."""


class Chrome(Struct, frozen=True):
    """What a terminal of some size has room for besides pane and composer."""

    line_only: bool
    bare: bool
    panel: Mode

    @classmethod
    def of(cls, width: int, height: int) -> Chrome:
        bare = width < 60 or height < 20
        panel = Mode.LARGE if height >= 45 else Mode.MEDIUM if height >= 30 else Mode.SMALL
        return cls(line_only=width < 20 or height < 6, bare=bare, panel=Mode.OFF if bare else panel)


class Workbench(Quitting, Finding, Composing, Comparing, Conversing, Keeping, Exporting, Engining):
    """Draws the session and the engine; the state itself lives in Session, Runs and Engines."""

    AUTO_FOCUS = "Composer"

    def __init__(
        self,
        opened: Opened,
        workspaces: Workspaces,
        engines: Engines,
        glyphs: Glyphs,
        panel: Mode | None,
        keymap: Keymap,
        collapse_over: int = COLLAPSE_OVER,
    ) -> None:
        """panel: its size; None lets the terminal's height decide. collapse_over: see Pastes."""
        super().__init__()
        session = opened.session
        self.workspaces = workspaces
        self.opened, self.session, self.engines, self.keymap = opened, session, engines, keymap
        self.runs = Runs(engines, self._begun, self._dropped)
        self.panel_mode = panel
        self._drawn: tuple[EngineLink, int] | None = None
        self._ticks = 0
        self.glyphs = glyphs
        self.grid = PaneGrid(session, glyphs, keymap)
        self.panel = LanePicker(keymap, glyphs=glyphs)
        self.composer = Composer(session, keymap, collapse_over, self.count_tokens)
        self._status = StatusBar(keymap)
        self._tabs = TabStrip(session, glyphs, keymap)
        self.key_bar = KeyBar(keymap)

    def compose(self) -> ComposeResult:
        yield self._status
        yield self._tabs
        yield self.grid
        yield self.panel
        yield self.composer
        yield self.key_bar
        yield Static("needs 20x6 or more", id="no-room", markup=False)

    def on_mount(self) -> None:
        self._ticker = self.set_interval(TEXT_PERIOD, self._tick, pause=True)
        self.set_interval(QUIET_PERIOD, self._draw_quiet)
        self.engines.on_change = self._draw_engine
        self.begin_keeping()
        self.describe()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        event.refresh_styles = False  # all are styled when mounted, and when "covered" goes

    def on_resize(self) -> None:
        self.fit()

    def on_descendant_focus(self) -> None:
        context = Context.COMPOSER if self.focused is self.composer else Context.PANES
        self.key_bar.switch(context)
        self.grid.switch(context)
        if self.focused is self.panel:
            self.key_bar.hint(self.panel.HINTS)

    async def on_key(self, event: events.Key) -> None:
        """A key that no widget has the focus for means what it last meant."""
        if self.focused is None:
            await act_on_key(self, event, self.keymap.calls(self.key_bar.context))

    def on_pane_activated(self, event: Pane.Activated) -> None:
        if event.conversation is not self.session.active:
            self.activate(event.conversation)

    def send(self, prompt: str) -> None:
        """Send to wherever the target says; while an engine is missing the prompts wait."""
        self.session.remember(prompt)
        if self.session.editing is not None:
            self.send_edited(prompt)
            return
        recipients = self.session.recipients()
        self.note_broadcast(prompt, recipients)
        for pane in recipients:
            self.runs.send(pane, prompt)
        self._draw_panes()

    # ---- drawing

    def fit(self) -> None:
        chrome = Chrome.of(*self.app.size)
        zoomed = self.grid.zoomed
        self.set_class(chrome.line_only, "-line-only")
        self.set_class(chrome.bare, "-bare")
        wanted = chrome.panel if self.panel_mode is None else self.panel_mode
        unseen = chrome.bare or zoomed or hidden(self.session)  # lanes would tell who is who
        self.panel.mode = Mode.OFF if unseen else wanted
        self.set_class(self.panel.mode is Mode.FULL, "-full-panel")
        self.grid.lay_out()
        self.set_class(self.grid.paged, "-paged")

    def describe(self) -> None:
        """Redo everything that shows names, targets and which pane is active."""
        self.swap_drafts()
        self.fit()
        self.grid.describe()
        self.composer.describe()
        self._tabs.refresh_tabs()

    def _draw_panes(self) -> None:
        for run in self.runs:
            self.grid.pane_of(run.pane).show_progress(run)
        unseen = engines_hidden(self.session)
        for pane in self.grid.query(Pane):
            failure = self.engines.failure(pane.conversation.params.engine)
            pane.show_failure("" if unseen else failure)
        self._tabs.refresh_tabs()

    def _draw_engine(self) -> None:
        """Figures that change all the time; nothing is drawn while nothing happens."""
        link = self.link
        shown = None if engines_hidden(self.session) else link
        self._status.refresh_status(shown, self.opened.journal.title)
        self.recount()
        self._draw_panes()
        if (drawn := (link, link.live.version)) != self._drawn or link.live.active:
            self._drawn = drawn
            self.panel.show(link.live, link.now(), link.name)

    def _draw_quiet(self) -> None:
        if not self.runs:
            self._draw_engine()

    # ---- running

    def _begun(self, run: Run) -> None:
        self.broadcasts.begun(run)
        self.grid.pane_of(run.pane).begin(run)
        self._ticker.resume()

    def _dropped(self, pane: Conversation, prompt: str) -> None:
        self.broadcasts.dropped(pane, prompt)

    def _tick(self) -> None:
        for run in self.runs:
            if run.pane.number % GROUPS != self._ticks % GROUPS:
                continue
            pane = self.grid.pane_of(run.pane)
            pane.advance(run)
            if run.over:
                pane.end(run)
                self._keep_prompt(run)
                self.runs.retire(run)
                self.keep()
        self._ticks += 1
        if self._ticks % FIGURES_EVERY == 0:
            self._draw_engine()
        if not self.runs:
            self._ticker.pause()

    def _keep_prompt(self, run: Run) -> None:
        """A refused prompt goes back to the composer, unless something else is typed there."""
        refused = run.turn.status is TurnStatus.FAILED and not run.turn.answer
        if refused and not self.composer.text:
            self.composer.put(run.turn.prompt)

    # ---- actions: typing and sending

    def action_leave(self) -> None:
        self.set_focus(self.grid.active)

    def action_step_back(self) -> None:
        """One step for each press, and never out of the app."""
        composer = self.composer
        selected = composer.selected_text or self.get_selected_text()
        if selected:
            self._copy(selected)
            composer.selection = Selection.cursor(composer.cursor_location)
            self.clear_selection()
        elif composer.has_focus and composer.text:
            self.session.remember(composer.take())
            self.end_edit()
            self.say("cleared; Up brings it back")
        elif not self._stop_active():
            stop_all = self.key("stop_all", Context.PANES)
            others = f"{stop_all} in the panes stops all; " if self.runs else ""
            self.say(f"{others}{self.key('quit')} quits")

    def action_stop(self) -> None:
        if not self._stop_active():
            self.say("nothing to stop here")

    def _stop_active(self) -> bool:
        done = self.runs.stop_step(self.session.active)
        self._draw_panes()
        if done and not self.session.active.busy:
            self.say(done)
        return bool(done)

    def action_stop_all(self) -> None:
        count = self.runs.stop_all()
        self.say(f"stopped {counted(count, 'pane')}" if count else "nothing to stop")

    # ---- actions: the whole workbench

    def action_help(self) -> None:
        from dspark_tui.screens.help import Help

        self.app.push_screen(Help(self.keymap))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_themes(self) -> None:
        from dspark_tui.screens.palette import Palette, ThemeCommands

        self.app.push_screen(Palette(ThemeCommands, "Search for themes"))

    def action_redraw(self) -> None:
        self.app.refresh(repaint=True, layout=True)
