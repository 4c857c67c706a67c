"""Which session this instance holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dspark_tui.storage.store import Store
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
