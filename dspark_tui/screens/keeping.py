"""The open session as something kept: saving it as it changes, names, other sessions."""

from __future__ import annotations

from dspark_tui.pastes import Draft
from dspark_tui.screens.desk import Desk
from dspark_tui.widgets.batch_panel import Mode
from dspark_tui.widgets.pane_grid import Layout
from dspark_tui.workspaces import Opened

KEEP_PERIOD = 0.5
"""Seconds between two looks at what is to be saved."""


class Keeping(Desk):
    """opened: the session with its place in the store."""

    opened: Opened
    panel_mode: Mode | None
    _trouble = ""
    _draft_key = ""

    def begin_keeping(self) -> None:
        """Look at the session as it was left, and save it from now on."""
        view = self.opened.view
        if view.layout in list(Layout):
            self.grid.layout_mode = Layout(view.layout)
        self.composer.restore(view.draft)
        self._draft_key = self.session.draft_key
        self.call_after_refresh(self._scroll_back)
        self.set_interval(KEEP_PERIOD, self.keep)

    def _scroll_back(self) -> None:
        for pane in self.session.panes:
            left_off = self.opened.view.scroll.get(pane.number)
            if left_off is not None:
                self.grid.pane_of(pane).transcript.resume(left_off)

    def keep(self) -> None:
        """Have saved what has changed; if that fails, say so once."""
        view = self.opened.view
        view.layout = self.grid.layout_mode
        view.draft = self.composer.draft if self.session.editing is None else Draft()
        places = {
            pane.number: self.grid.pane_of(pane).transcript.left_off for pane in self.session.panes
        }
        view.scroll = {number: place for number, place in places.items() if place is not None}
        self.opened.journal.note(self.runs, view)
        trouble = self.opened.journal.trouble
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                self.notify(trouble, severity="warning", timeout=12)

    def swap_drafts(self) -> None:
        """Give the composer the draft for where prompts go now."""
        key, self._draft_key = self._draft_key, self.session.draft_key
        if key and key != self._draft_key and self.session.editing is None:
            draft = self.composer.draft
            wanted = self.session.swap_draft(key, draft)
            if wanted is not draft:
                self.composer.restore(wanted)
