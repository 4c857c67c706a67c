"""The top line: which model, how busy, what is wrong if something is, and which session it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.keymap import Keymap
from dspark_tui.text.foreign import drawable

if TYPE_CHECKING:
    from dspark_tui.engines.link import EngineLink

NAME_WIDTHS = 12, 40
"""The least and the most columns the session's name gets."""

GAP = 4
BRAND = Content.styled(" dspark-tui ", "bold $primary")
HIDDEN = "blind: several engines, which is which shows after the vote"


class StatusBar(Static):
    """Calm: it changes only when it would read differently."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        leave, restart = (
            keymap.name("leave", Context.COMPOSER),
            keymap.name("restart", Context.PANES),
        )
        self._remedy = f"{leave}, {restart} tries again"
        self._line, self._session = Content(), ""

    def refresh_status(self, link: EngineLink | None, session: str) -> None:
        """Show the condition of that engine; None: which one it is must not be seen.

        session: what it goes by, shown where the condition leaves room.
        """
        condition = Content(HIDDEN) if link is None else self._condition(link)
        if link is not None and link.name:
            condition = Content.assemble((drawable(link.name), "bold"), "  ", condition)
        line = Content.assemble(BRAND, "  ", condition)
        if (line.plain, session) != (self._line.plain, self._session):
            self._line, self._session = line, session
            self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Put the session's name to the right end, cut to the room there is, or leave it out.

        The program's name goes where it would cost some of the condition.
        """
        line, (least, most) = self._line, NAME_WIDTHS
        if line.cell_length > self.size.width:
            line = line[BRAND.cell_length + 1 :]
        room = self.size.width - line.cell_length - GAP - 1
        name = Content(drawable(self._session)).truncate(min(room, most), ellipsis=True)
        if self._session and room >= least:
            line = Content.assemble(line, " " * (GAP + room - name.cell_length), name)
        self.update(line)

    def _condition(self, link: EngineLink) -> Content:
        from dspark_tui.widgets.condition import running, starting  # the engine's events with it

        if link.failed:
            return Content.assemble(
                ("engine failed", "bold $error"), f" ({self._remedy}): {drawable(link.problem)}"
            )
        return running(link) if link.ready.is_set() else starting(link)
