"""The top line: which model, how busy, and what is wrong if something is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.keymap import Keymap
from dspark_tui.text.foreign import drawable

if TYPE_CHECKING:
    from dspark_tui.engines.link import EngineLink

HIDDEN = "blind: several engines, which is which shows after the vote"


class StatusBar(Static):
    """Calm: it changes only when the engine's condition does."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        leave, restart = (
            keymap.name("leave", Context.COMPOSER),
            keymap.name("restart", Context.PANES),
        )
        self._remedy = f"{leave}, {restart} tries again"
        self._shown = ""

    def refresh_status(self, link: EngineLink | None) -> None:
        """Show the condition of that engine; None: which one it is must not be seen."""
        condition = Content(HIDDEN) if link is None else self._condition(link)
        if link is not None and link.name:
            condition = Content.assemble((drawable(link.name), "bold"), "  ", condition)
        if condition.plain != self._shown:
            self._shown = condition.plain
            self.update(Content.assemble((" dspark-tui ", "bold $primary"), "  ", condition))

    def _condition(self, link: EngineLink) -> Content:
        from dspark_tui.widgets.condition import running, starting  # the engine's events with it

        if link.failed:
            return Content.assemble(
                ("engine failed", "bold $error"), f" ({self._remedy}): {drawable(link.problem)}"
            )
        return running(link) if link.ready.is_set() else starting(link)
