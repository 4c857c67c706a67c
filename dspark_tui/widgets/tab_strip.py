"""The panes as tabs, for terminals that show only some of them at a time."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.conversation.session import Conversation, Session
from dspark_tui.keymap import Keymap


class TabStrip(Static):
    """One line; a click goes to that pane, and a key that it names to the next one."""

    def __init__(self, session: Session, glyphs: Glyphs, keymap: Keymap) -> None:
        super().__init__()
        self._session = session
        self._glyphs = glyphs
        key = keymap.name("next_pane", Context.COMPOSER)
        self._hint = Content.assemble((key, "bold $primary"), " next pane ")
        self._shown: tuple[object, ...] = ()

    def refresh_tabs(self) -> None:
        """Redraw if anything a tab shows has changed."""
        facts = tuple((p.title, self._mark(p), p is self._session.active, len(p.pending))
                      for p in self._session.panes)  # fmt: skip
        if facts != self._shown:
            self._shown = facts
            self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Where not all names fit, only the active pane has one, as much of it as there is room."""
        panes, active = self._session.panes, self._session.active
        room = self.size.width - self._hint.cell_length
        line = Content(" ").join(self._tab(pane, pane.title) for pane in panes)
        if line.cell_length > room:
            tabs = [self._tab(pane, pane.alias or str(pane.number)) for pane in panes]
            spare = room - sum(tab.cell_length for tab in tabs)
            title = Content(active.title).truncate(max(1, 1 + spare), ellipsis=True)
            tabs[panes.index(active)] = self._tab(active, title.plain)
            line = Content.assemble(*tabs)
        gap = room - line.cell_length
        self.update(Content.assemble(line, " " * gap, self._hint) if gap >= 0 else line)

    def _tab(self, pane: Conversation, name: str) -> Content:
        text = f" {self._mark(pane)} {name}"
        if pane.pending:
            text += f" +{len(pane.pending)}"
        active = pane is self._session.active
        tab = Content(f"[{text[1:]}]" if active else f"{text} ")
        if active:
            tab = tab.stylize("bold $primary")
        return tab.stylize(Style.from_meta({"@click": f"screen.go('{pane.digit}')"}))

    def _mark(self, pane: Conversation) -> str:
        if not pane.turns:
            return self._glyphs.queued
        ending = pane.turns[-1].ending
        return self._glyphs.running if ending is None else ending.sign(self._glyphs)
