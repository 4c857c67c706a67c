"""What the workbench's topics work on: the session, what runs, and the widgets that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dspark_tui.actions import Context
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.comparison.blind import hidden
from dspark_tui.conversation.runs import Runs
from dspark_tui.conversation.session import Conversation, Session
from dspark_tui.engines.engines import Engines
from dspark_tui.keymap import Keymap
from dspark_tui.textual_private import PatientScreen
from dspark_tui.widgets.composer import Composer
from dspark_tui.widgets.key_bar import KeyBar
from dspark_tui.widgets.pane import Pane
from dspark_tui.widgets.pane_grid import PaneGrid

if TYPE_CHECKING:
    from dspark_tui.comparison.repeats import Repeats
    from dspark_tui.engines.link import EngineLink


class Desk(PatientScreen[None]):
    """Base of the classes that each hold one topic's actions; `Workbench` joins and draws them."""

    session: Session
    engines: Engines
    runs: Runs
    repeats: Repeats | None = None
    keymap: Keymap
    glyphs: Glyphs
    grid: PaneGrid
    composer: Composer
    key_bar: KeyBar

    @property
    def link(self) -> EngineLink:
        """To the active pane's engine."""
        return self.engines.of(self.session.active.params.engine)

    def say(self, text: str) -> None:
        """Tell the person something in passing."""
        self.notify(text, timeout=3, markup=False)

    def refused_while_blind(self) -> bool:
        """Say so if something can't be shown because it would tell which pane is which."""
        if hidden(self.session):
            self.say(f"would tell who is who; {self.key('blind', Context.PANES)} shows all names")
        return hidden(self.session)

    def describe(self) -> None:
        """Redo everything that shows names, targets and which pane is active."""
        raise NotImplementedError

    def activate(self, conversation: Conversation) -> None:
        """Make it the active pane; the focus follows unless it is in the composer."""
        self.session.active = conversation
        self.describe()
        if isinstance(self.focused, Pane) or self.focused is None:
            self.set_focus(self.grid.active)

    def key(self, id: str, context: Context | None = None) -> str:
        """How the action's key is called, where the person is now unless `context` says."""
        return self.keymap.name(id, context or self.key_bar.context)
