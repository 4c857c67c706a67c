"""What of the open session is not on disk yet, found by comparing it with what was saved."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dspark_tui.conversation.session import Conversation, Session
from dspark_tui.conversation.turns import Turn, TurnStatus
from dspark_tui.storage.rows import NAME_LENGTH, PaneRow, Row, WorkspaceRow
from dspark_tui.storage.saver import Saver
from dspark_tui.storage.workspace import (
    View,
    dump_view,
    every_turn,
    pane_row,
    request_row,
    turn_row,
)

if TYPE_CHECKING:
    from dspark_tui.conversation.run import Run

Seen = tuple[TurnStatus, int, int]
"""Of a turn: nothing but these changes once it exists."""


class Journal:
    """Keeps one session saved. A session without any text is not worth a place on disk."""

    def __init__(self, saver: Saver, session: Session, workspace: WorkspaceRow) -> None:
        """workspace: as it is stored, or is to be."""
        self._saver, self._session = saver, session
        self.workspace = workspace
        self._panes: dict[int, PaneRow] = {}
        self._turns: dict[int, Seen] = {}

    @classmethod
    def of_stored(cls, saver: Saver, session: Session, workspace: WorkspaceRow) -> Journal:
        """For a session that is in the store as it is."""
        journal = cls(saver, session, workspace)
        for pane in session.panes:
            journal._panes[pane.id] = pane_row(pane, workspace.id)
            journal._turns |= {turn.id: _seen(turn) for turn in every_turn(pane)}
        return journal

    def note(self, runs: Iterable[Run], view: View) -> None:
        """Have everything saved that has changed. runs: those that are still receiving."""
        session = self._session
        known = bool(self._panes)
        if not known and not any(pane.starts for pane in session.panes) and not view.draft.text:
            return
        rows: list[Row] = list(self._changed_panes())
        for pane in session.panes:
            rows += self._changed_turns(pane)
        rows += [request_row(run.record(), run.turn) for run in runs]
        document = dump_view(session, view)
        if rows or document != self.workspace.view:
            self.workspace = replace(self.workspace, used=time.time(), view=document)
            rows.insert(0, self.workspace)
        self._saver.save(rows)
        self._forget_closed()

    @property
    def trouble(self) -> str:
        """One line while nothing can be saved, else ""."""
        return self._saver.trouble

    @property
    def title(self) -> str:
        """What the session goes by, in one line: its name, else its first prompt."""
        name = self.workspace.name
        if not name:
            starts = [turn for pane in self._session.panes for turn in pane.starts]
            name = min(starts, key=lambda turn: turn.id).prompt if starts else ""
        return " ".join(name[:NAME_LENGTH].split())

    def rename(self, name: str) -> None:
        self.workspace = replace(self.workspace, name=name, view="")  # saved at the next look

    def _changed_panes(self) -> Iterator[PaneRow]:
        for pane in self._session.panes:
            row = pane_row(pane, self.workspace.id)
            if row != self._panes.get(pane.id):
                self._panes[pane.id] = row
                yield row

    def _changed_turns(self, pane: Conversation) -> Iterator[Row]:
        for turn in every_turn(pane):
            seen = _seen(turn)
            if seen != self._turns.get(turn.id):
                self._turns[turn.id] = seen
                yield turn_row(turn, pane)
                yield from (request_row(record, turn) for record in turn.requests)

    def _forget_closed(self) -> None:
        """A pane that was closed is gone from the disk as well."""
        for id in self._panes.keys() - {pane.id for pane in self._session.panes}:
            del self._panes[id]
            self._saver.delete_pane(id)


def _seen(turn: Turn) -> Seen:
    return turn.status, len(turn.answer), len(turn.requests)
