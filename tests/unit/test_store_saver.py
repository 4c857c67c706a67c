"""The store's thread: nothing handed to it is lost, whatever happens to the disk meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dspark_tui.storage.rows import Row, WorkspaceRow
from dspark_tui.storage.saver import Saver
from dspark_tui.storage.store import Store
from dspark_tui.storage.workspaces import Lock


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Saver]:
    opened = Saver(tmp_path / "sessions.db")
    yield opened
    opened.close()


def names(saver: Saver) -> list[str]:
    return [listed.name for listed in saver.now(lambda store: store.listed())]


def test_of_two_states_of_a_row_the_later_counts(saver: Saver) -> None:
    saver.save([WorkspaceRow(1, "early", 1.0, ""), WorkspaceRow(2, "other", 2.0, "")])
    saver.save([WorkspaceRow(1, "late", 1.0, "")])
    assert names(saver) == ["other", "late"]


def test_what_could_not_be_saved_is_saved_the_next_time(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Store.save

    def full(self: Store, rows: Iterable[Row]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "save", full)
    saver.save([WorkspaceRow(1, "first", 1.0, "")])
    assert names(saver) == []
    assert "disk is full" in saver.trouble
    monkeypatch.setattr(Store, "save", real)
    saver.save([])
    assert names(saver) == ["first"]
    assert saver.trouble == ""


def test_closing_saves_what_is_left(tmp_path: Path) -> None:
    saver = Saver(tmp_path / "sessions.db")
    saver.save([WorkspaceRow(1, "last words", 1.0, "")])
    saver.close()
    again = Saver(tmp_path / "sessions.db")
    assert names(again) == ["last words"]
    again.close()


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "locks" / "1")
    with pytest.raises(BlockingIOError):
        Lock(tmp_path / "locks" / "1")
    lock.release()
    Lock(tmp_path / "locks" / "1").release()
