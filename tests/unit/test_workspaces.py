"""Which session this instance holds."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from dspark_tui.batch.ending import Ending
from dspark_tui.conversation.bookmark import Bookmark
from dspark_tui.conversation.pastes import Draft
from dspark_tui.storage.rows import PaneRow, Stored, TurnRow, WorkspaceRow
from dspark_tui.storage.store import Store
from dspark_tui.storage.workspace import restored
from dspark_tui.storage.workspaces import Workspaces


def test_a_session_that_turns_out_to_be_gone_is_not_held(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "sessions.db")
    assert workspaces.open(7) is None
    assert not workspaces.in_use(7)
    workspaces.close()


def test_a_session_that_cannot_be_read_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(store: Store, id: int) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(Store, "load", load)
    workspaces = Workspaces(tmp_path / "sessions.db")
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        workspaces.open(7)
    assert not workspaces.in_use(7)
    workspaces.close()


def test_drafts_that_were_kept_by_their_panes_numbers_come_back() -> None:
    view = json.dumps({"drafts": {"2": Draft("for two").dumps(), "all": Draft("for all").dumps()}})
    panes = [PaneRow(2**60 + number, 1, number, "{}", None) for number in (1, 2)]
    session, _ = restored(Stored(WorkspaceRow(1, "", 0.0, view), panes))
    drafts = {key: draft.text for key, draft in session.drafts.items()}
    assert drafts == {str(2**60 + 2): "for two", "all": "for all"}


def test_where_a_reader_left_off_comes_back_unless_it_was_kept_as_a_number_of_lines() -> None:
    panes = [PaneRow(number, 1, number, "{}", None) for number in (1, 2, 3)]
    left_off = {"1": 40, "2": {"turn": 3, "line": 2, "character": 70}, "3": None}
    view = json.dumps({"left_off": left_off})
    session, _ = restored(Stored(WorkspaceRow(1, "", 0.0, view), panes))
    assert [pane.left_off for pane in session.panes] == [None, Bookmark(3, 2, 70), None]


@pytest.mark.parametrize("blind", [[1, 1], [1, 2, 3], ["2", "1"], [None, 2], 7, None])
def test_a_blind_order_that_is_none_hides_nobody(blind: object) -> None:
    panes = [PaneRow(number, 1, number, "{}", None) for number in (1, 2)]
    view = json.dumps({"blind": blind})
    session, _ = restored(Stored(WorkspaceRow(1, "", 0.0, view), panes))
    assert [pane.title for pane in session.panes] == ["1", "2"]


@pytest.mark.parametrize("status", ["waiting", "sent", "running", "of a newer version"])
def test_what_a_file_says_is_still_coming_was_interrupted(status: str) -> None:
    turns = [TurnRow(5, 1, None, "why", "bec", status, "", "", None, False)]
    stored = Stored(WorkspaceRow(1, "", 0.0, "{}"), [PaneRow(1, 1, 1, "{}", 5)], turns)
    (pane,) = restored(stored)[0].panes
    assert pane.turns[-1].ending is Ending.INTERRUPTED
    assert not pane.busy
