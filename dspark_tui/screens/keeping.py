"""The open session as something kept: saving it as it changes, names, other sessions."""

from __future__ import annotations

from collections.abc import Set

from textual.message import Message

from dspark_tui.conversation.bookmark import Bookmark
from dspark_tui.conversation.pastes import Draft
from dspark_tui.screens.desk import Desk
from dspark_tui.storage.workspace import every_turn
from dspark_tui.storage.workspaces import Choice, Opened, Workspaces
from dspark_tui.widgets.pane_grid import Layout

KEEP_PERIOD = 0.5
"""Seconds between two looks at what is to be saved."""


class SessionChosen(Message):
    """Another session is to be shown."""

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice


class Keeping(Desk):
    """opened: the session with its place in the store. workspaces: all there are."""

    opened: Opened
    workspaces: Workspaces
    _trouble = ""
    _draft_key = ""

    def begin_keeping(self) -> None:
        """Look at the session as it was left, and save it from now on."""
        view = self.opened.view
        if view.layout in list(Layout):
            self.grid.layout_mode = Layout(view.layout)
        self.grid.zoomed = view.zoomed
        self._draft_key = self.session.draft_key
        kept = self.session.drafts.pop(self._draft_key, Draft())  # by an edit that was not ended
        self.composer.restore(view.draft if view.draft.text else kept)
        for prompt in view.unsent:
            self.session.remember(prompt)
        if view.unsent and not self.composer.text:
            self.composer.put(view.unsent[0])
        self.engines.recognize(self._asked_here)
        self.set_interval(KEEP_PERIOD, self.keep)

    def _asked_here(self, requests: Set[str]) -> Set[str]:
        """Those that turns of this session came from. Ids are drawn at random, and a session is
        open in one window at a time: so they were sent from here, perhaps by an earlier start."""
        turns = (turn for pane in self.session.panes for turn in every_turn(pane))
        return requests & {record.request for turn in turns for record in turn.requests}

    def keep(self) -> None:
        """Have saved what has changed; if that fails, say so once."""
        view = self.opened.view
        view.layout, view.zoomed = self.grid.layout_mode, self.grid.zoomed
        view.draft = self.composer.draft if self.session.editing is None else Draft()
        for pane in self.session.panes:
            pane.left_off = self.grid.pane_of(pane).transcript.left_off
        repeating = self.repeats.receiving if self.repeats is not None else []
        self.opened.journal.note([*self.runs, *repeating], view)
        trouble = self.opened.journal.trouble
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                self.notify(trouble, severity="warning", timeout=12)

    def action_sessions(self) -> None:
        from dspark_tui.screens.sessions import Sessions

        def opened(choice: Choice | None) -> None:
            if choice is not None:
                self._leave_for(choice)

        self.keep()
        self.app.push_screen(Sessions(self.workspaces, self.opened.journal), opened)

    def action_new_session(self) -> None:
        self._leave_for(Choice(None))

    def _leave_for(self, choice: Choice) -> None:
        """Ask first while panes answer: a session stops when it is left."""
        from dspark_tui.screens.confirm import Confirm

        if choice.workspace == self.opened.journal.workspace.id:
            self.show_turn(choice)
            return
        if not self.runs:
            self.app.post_message(SessionChosen(choice))
            return

        def go(confirmed: bool | None) -> None:
            if confirmed:
                self.app.post_message(SessionChosen(choice))

        question = "Panes are answering here. Stop them and open another session?"
        self.app.push_screen(Confirm(question, "open"), go)

    def show_turn(self, choice: Choice) -> None:
        """Show the turn from its first line on, in its pane."""
        for pane in self.session.panes:
            turn = next((turn for turn in every_turn(pane) if turn.id == choice.turn), None)
            if turn is not None and (turn in pane.turns or not pane.busy):
                self.activate(pane)
                if turn not in pane.turns:
                    pane.show(turn)
                    self.grid.active.show()
                pane.left_off = Bookmark(pane.turns.index(turn))
                self.grid.active.resume()

    def swap_drafts(self) -> None:
        """Give the composer the draft for where prompts go now."""
        key, self._draft_key = self._draft_key, self.session.draft_key
        if key and key != self._draft_key and self.session.editing is None:
            draft = self.composer.draft
            wanted = self.session.swap_draft(key, draft)
            if wanted is not draft:
                self.composer.restore(wanted)
