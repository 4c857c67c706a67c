"""The panes, side by side as far as they fit, the rest on further pages."""

from __future__ import annotations

from enum import StrEnum
from math import ceil

from msgspec import Struct
from textual.containers import Container

from dspark_tui.actions import Context
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.conversation.session import Conversation, Session
from dspark_tui.keymap import Keymap
from dspark_tui.widgets.pane import Pane

PANE_WIDTH = 38
PANE_HEIGHT = 8
SIDE_BY_SIDE_FROM = 100
"""Columns; in a narrower terminal a grid shows one pane at a time, unless all stand in one row."""


class Layout(StrEnum):
    GRID = "grid"
    COLUMNS = "columns"
    ROWS = "rows"
    ONE = "one pane"

    @property
    def next(self) -> Layout:
        layouts = list(Layout)
        return layouts[(layouts.index(self) + 1) % len(layouts)]


class Plan(Struct, frozen=True):
    columns: int
    rows: int

    @property
    def per_page(self) -> int:
        return self.columns * self.rows


def plan(panes: int, width: int, height: int, layout: Layout) -> Plan:
    """How many panes fit in `width` × `height` cells, none narrower or lower than is readable."""
    columns, rows = max(1, width // PANE_WIDTH), max(1, height // PANE_HEIGHT)
    match layout:
        case Layout.ONE:
            return Plan(1, 1)
        case Layout.COLUMNS:
            return Plan(min(panes, columns), 1)
        case Layout.ROWS:
            return Plan(1, min(panes, rows))
    if width < SIDE_BY_SIDE_FROM and panes > columns:
        return Plan(1, 1)
    columns = min(panes, columns)
    needed = ceil(panes / columns)
    if needed <= rows:  # all fit: spread them evenly
        return Plan(ceil(panes / needed), needed)
    return Plan(columns, rows)


class PaneGrid(Container):
    """Holds one Pane per conversation. `lay_out` shows the active one's page."""

    _keys_of = Context.COMPOSER

    def __init__(self, session: Session, glyphs: Glyphs, keymap: Keymap) -> None:
        self._session, self._glyphs, self._keymap = session, glyphs, keymap
        super().__init__(*(self._new_pane(pane) for pane in session.panes))
        self.layout_mode = Layout.GRID
        self.zoomed = False
        self.plan = Plan(len(session.panes), 1)

    def _new_pane(self, conversation: Conversation) -> Pane:
        """With its classes from the start: a later one would style the pane once more."""
        session = self._session
        pane = Pane(conversation, self._glyphs, self._keymap)
        pane.context = self._keys_of
        pane.set_class(session.is_target(conversation), "-target", update=False)
        pane.set_class(conversation is session.active, "-active", update=False)
        return pane

    @property
    def active(self) -> Pane:
        return self.pane_of(self._session.active)

    @property
    def paged(self) -> bool:
        return self.plan.per_page < len(self._session.panes)

    def pane_of(self, conversation: Conversation) -> Pane:
        return self.get_child_by_id(f"pane-{conversation.number}", Pane)

    async def add(self, conversation: Conversation) -> None:
        pane = self._new_pane(conversation)
        await self.query(f"#{pane.id}").remove()  # one that was closed may not be gone yet
        at = self._session.panes.index(conversation)
        await self.mount(pane, before=at if at < len(self.children) else None)

    def lay_out(self) -> None:
        """Fit the panes to the present size and show the page with the active one."""
        session = self._session
        if not self.size:
            return
        if self.zoomed:
            self.plan = Plan(1, 1)
        else:
            self.plan = plan(len(session.panes), *self.size, self.layout_mode)
        self.styles.grid_size_columns = self.plan.columns
        self.styles.grid_size_rows = self.plan.rows
        page = session.panes.index(session.active) // self.plan.per_page
        first = page * self.plan.per_page
        shown = session.panes[first : first + self.plan.per_page]
        for conversation in session.panes:
            pane = self.pane_of(conversation)
            pane.display = conversation in shown
            pane.set_class(conversation is session.active, "-active")

    def reorder(self) -> None:
        """Put the panes in the session's order."""
        places = {f"pane-{pane.number}": place for place, pane in enumerate(self._session.panes)}
        self.sort_children(key=lambda child: places.get(child.id or "", len(places)))

    def switch(self, context: Context) -> None:
        """Note where keys go now: empty panes say what they do there."""
        self._keys_of = context
        for pane in self.query(Pane):
            pane.context = context

    def describe(self) -> None:
        """Redo the titles; the first pane is what the others are compared with."""
        base = self._session.panes[0].params
        for conversation in self._session.panes:
            target = self._session.is_target(conversation)
            self.pane_of(conversation).describe(base, target=target)

    def on_resize(self) -> None:
        self.lay_out()
