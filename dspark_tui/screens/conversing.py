"""Actions on the active pane's conversation: other answers, other prompts, other branches."""

from __future__ import annotations

from dspark_tui.conversation.pastes import Draft
from dspark_tui.conversation.turns import Origin
from dspark_tui.screens.paning import Paning


class Conversing(Paning):
    """Nothing here loses a turn: what is not shown stays a sibling of what is."""

    def action_regenerate(self) -> None:
        self._answer_again(Origin.NEW_SEED)

    def action_repeat(self) -> None:
        self._answer_again(Origin.SAME_SEED)

    def _answer_again(self, origin: Origin) -> None:
        pane = self.session.active
        prompt = pane.turns[-1].prompt if pane.turns else ""
        if refusal := self.runs.instead(pane, prompt, origin):
            self.say(refusal)

    def action_go_on(self) -> None:
        if refusal := self.runs.go_on(self.session.active):
            self.say(refusal)

    def action_older_sibling(self) -> None:
        self._switch(-1)

    def action_newer_sibling(self) -> None:
        self._switch(+1)

    def _switch(self, step: int) -> None:
        """Show the sibling `step` places on of the latest turn that has any."""
        pane = self.session.active
        turn = pane.fork_in_sight()
        if pane.busy or turn is None:
            self.say("this pane is busy" if pane.busy else "no other answer here to switch to")
            return
        siblings = pane.siblings(turn)
        pane.show(siblings[(siblings.index(turn) + step) % len(siblings)])
        self.grid.active.show()
        self.describe()

    def action_edit_prompt(self) -> None:
        pane = self.session.active
        if pane.busy or not pane.turns:
            self.say("this pane is busy" if pane.busy else "no prompt here to edit")
            return
        self.end_edit()
        self.session.drafts[self.session.draft_key] = self.composer.draft
        self.session.editing = pane
        self.composer.put(pane.turns[-1].prompt)
        self.describe()
        self.set_focus(self.composer)

    def send_edited(self, prompt: str) -> None:
        """Answer what the last prompt was made into; the old turn stays as a sibling."""
        pane = self.session.editing
        if pane is not None and (refusal := self.runs.instead(pane, prompt, Origin.EDITED)):
            self.say(refusal)
            self.composer.put(prompt)
        else:
            self.end_edit()

    def end_edit(self) -> None:
        """Put back what stood in the composer before."""
        if self.session.editing is not None:
            self.session.editing = None
            self.composer.restore(self.session.drafts.pop(self.session.draft_key, Draft()))
            self.describe()

    async def action_fork(self) -> None:
        source = self.session.active
        if source.busy:
            self.say("this pane is busy; fork it when its answer is there")
            return
        copies = source.copied_turns()
        fork = await self.open_pane(source.params)
        if fork is not None:
            fork.turns, fork.starts = copies, copies[:1]
            self.grid.active.show()
            self.describe()
