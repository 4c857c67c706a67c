"""The top line: which model, how busy, what is wrong if something is, where, and which session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.keymap import Keymap
from dspark_tui.text.foreign import drawable

if TYPE_CHECKING:
    from dspark_tui.engines.link import EngineLink

LEAST = 12
"""Columns below which a name is left out."""

MOST_OF_SESSION = 40
"""Columns of the session's name."""

GAP = 4
AT = "   at "
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
        self._line, self._place, self._session = Content(), "", ""

    def refresh_status(self, link: EngineLink | None, session: str) -> None:
        """Show the condition of that engine; None: which one it is must not be seen.

        session: what it goes by, shown where the condition leaves room.
        """
        condition = Content(HIDDEN) if link is None else self._condition(link)
        if link is not None and link.name:
            condition = Content.assemble((drawable(link.name), "bold"), "  ", condition)
        line = Content.assemble(BRAND, "  ", condition)
        place = "" if link is None or link.problem else link.place  # a problem tells where it is
        if (line.plain, place, session) != (self._line.plain, self._place, self._session):
            self._line, self._place, self._session = line, place, session
            self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Cut to the room there is, or leave out, where the engine is and, at the right end, the
        session's name. The program's name goes where it would cost some of the rest.
        """
        line, width = self._line, self.size.width
        place = Content(f"{AT}{drawable(self._place)}" if self._place else "")
        if line.cell_length + place.cell_length > width:
            line = line[BRAND.cell_length + 1 :]
        if (room := width - line.cell_length) >= min(place.cell_length, len(AT) + LEAST):
            line = Content.assemble(line, place.truncate(room, ellipsis=True))
        room = width - line.cell_length - GAP - 1
        name = Content(drawable(self._session)).truncate(min(room, MOST_OF_SESSION), ellipsis=True)
        if self._session and room >= LEAST:
            line = Content.assemble(line, " " * (GAP + room - name.cell_length), name)
        self.update(line)

    def _condition(self, link: EngineLink) -> Content:
        from dspark_tui.widgets.condition import running, starting  # the engine's events with it

        if link.failed:
            return Content.assemble(
                ("engine failed", "bold $error"), f" ({self._remedy}): {drawable(link.problem)}"
            )
        return running(link) if link.ready.is_set() else starting(link)
