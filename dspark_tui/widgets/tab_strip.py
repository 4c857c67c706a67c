"""The panes as tabs, for terminals that show only some of them at a time."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.conversation.session import Conversation, Session, TurnStatus


class TabStrip(Static):
    """One line; a click goes to that pane."""

    def __init__(self, session: Session, glyphs: Glyphs) -> None:
        super().__init__()
        self._session = session
        self._glyphs = glyphs
        self._shown: tuple[object, ...] = ()

    def refresh_tabs(self) -> None:
        """Redraw if anything a tab shows has changed."""
        facts = tuple((p.title, self._mark(p), p is self._session.active, len(p.pending))
                      for p in self._session.panes)  # fmt: skip
        if facts != self._shown:
            self._shown = facts
            self.update(Content(" ").join(self._tab(pane) for pane in self._session.panes))

    def _tab(self, pane: Conversation) -> Content:
        text = f" {self._mark(pane)} {pane.title}"
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
        status = pane.turns[-1].status
        if not status.over:
            return self._glyphs.running
        if status in (TurnStatus.FAILED, TurnStatus.INTERRUPTED):
            return self._glyphs.failed
        return self._glyphs.stopped if status is TurnStatus.STOPPED else self._glyphs.done
