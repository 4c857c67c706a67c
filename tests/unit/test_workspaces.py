"""Which session this instance holds."""

from __future__ import annotations

from pathlib import Path

from dspark_tui.storage.workspaces import Workspaces


def test_a_session_that_turns_out_to_be_gone_is_not_held(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "sessions.db")
    assert workspaces.open(7) is None
    assert not workspaces.in_use(7)
    workspaces.close()
