"""Actions on panes as such: which is active, which there are, how they are laid out."""

from __future__ import annotations

from collections.abc import Callable

from dspark_tui.conversation.params import PaneParams, ParamError, updated
from dspark_tui.conversation.session import MAX_PANES, Conversation, Target
from dspark_tui.screens.desk import Desk
from dspark_tui.storage.workspace import every_turn
from dspark_tui.text.counted import counted


class Paning(Desk):
    """Choosing, opening, closing and arranging panes."""

    _unzoom: Callable[[], None] | None = None

    def action_go(self, number: str) -> None:
        conversation = self.session.numbered(int(number))
        if conversation is not None:
            self.activate(conversation)

    def action_next_pane(self) -> None:
        self.activate(self.session.neighbour(+1))

    def action_previous_pane(self) -> None:
        self.activate(self.session.neighbour(-1))

    def action_page_back(self) -> None:
        self.activate(self.session.neighbour(-self.grid.plan.per_page))

    def action_page_on(self) -> None:
        self.activate(self.session.neighbour(+self.grid.plan.per_page))

    def action_target(self) -> None:
        self.session.toggle_target()
        self.describe()

    def action_choose(self) -> None:
        self.session.toggle_chosen(self.session.active)
        self.describe()

    def action_choose_all(self) -> None:
        self.session.target = Target.ALL
        self.describe()

    async def action_add_pane(self) -> None:
        await self.open_pane(self.session.active.params)

    async def open_pane(self, params: PaneParams) -> Conversation | None:
        """A new pane, active at once; None, and the person is told, when there are eight."""
        conversation = self.session.add(params)
        if conversation is None:
            self.say(f"{MAX_PANES} panes are as many as there are")
            return None
        await self.grid.add(conversation)
        self.activate(conversation)
        return conversation

    def action_close_pane(self) -> None:
        from dspark_tui.screens.confirm import Confirm

        pane = self.session.active
        if len(self.session.panes) == 1:
            self.say(f"the last pane stays; {self.key('quit')} quits")
        elif pane.starts:
            state = "is answering" if pane.busy else f"holds {_contents(pane)}"
            question = f"Pane {pane.title} {state}. Close it all the same?"
            self.app.push_screen(Confirm(question, "close"), self._close_if)
        else:
            self._close_if(True)

    def _close_if(self, confirmed: bool | None) -> None:
        if confirmed:
            self._close(self.session.active)

    def _close(self, pane: Conversation) -> None:
        """At once, so that nothing more is sent there while its connection is being closed."""
        widget = self.grid.pane_of(pane)
        if self.session.close(pane):
            self.activate(self.session.active)  # first, or the focus would go where it likes
            self.run_worker(self.runs.close(pane), group="close", exit_on_error=False)
            widget.remove()

    def action_params(self) -> None:
        from dspark_tui.screens.params import ParamsForm

        pane = self.session.active

        def apply(params: PaneParams | None) -> None:
            if params is not None:
                pane.params = params
                self.describe()

        self.app.push_screen(ParamsForm(pane, self.engines.names), apply)

    def action_rename_pane(self) -> None:
        from dspark_tui.screens.ask import Ask

        pane = self.session.active

        def rename(name: str | None) -> None:
            if name is None:
                return
            try:
                pane.params = updated(pane.params, {"name": name})
            except ParamError as error:
                self.say(str(error))
            self.describe()

        self.app.push_screen(Ask(f"name of pane {pane.number}", pane.params.name), rename)

    def action_zoom(self) -> None:
        if self._unzoom is None:
            self._unzoom = self.grid.active.keep_scroll()
        self.grid.zoomed = not self.grid.zoomed
        self.describe()
        if not self.grid.zoomed:
            self.call_after_refresh(self._unzoom)
            self._unzoom = None

    def action_layout(self) -> None:
        self.grid.layout_mode = self.grid.layout_mode.next
        self.describe()
        self.say(f"layout: {self.grid.layout_mode}")


def _contents(pane: Conversation) -> str:
    """What would be lost with it, in all branches; what failed may have brought no text."""
    turns = list(every_turn(pane))
    answers = sum(bool(turn.answer) for turn in turns)
    prompts = counted(len(turns), "prompt")
    return f"{prompts} and {counted(answers, 'answer')}" if answers else f"{prompts}, no answer"
