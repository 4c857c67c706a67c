"""Record the workbench under a real terminal, then play the recording there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.proof.recording import read
from tests.pty.conftest import Terminal

pytestmark = pytest.mark.pty


def test_a_session_is_recorded_and_played_again(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    run = terminal("--record", str(path))
    run.until_shown("slots busy")
    run.send("tell me\r")
    run.until(lambda: run.text.count("done") == 2)
    run.send("\x11")
    assert run.wait() == 0
    assert f"dspark-tui replay {path} plays it" in run.text.replace("\n", "")
    assert read(path).complete

    again = Terminal("replay", str(path), "--speed", "50", engine="", size=(120, 35))
    again.until_shown("at the end")
    again.until_shown("burst 1 of 1   2 requests")
    again.until_shown("tok/s aggregate")
    again.send("q")
    assert again.wait() == 0
    assert again.modes_left_on() == []
    assert b"Traceback" not in again.raw


def test_a_file_that_cannot_be_made_is_refused_before_anything_starts(tmp_path: Path) -> None:
    run = Terminal("--record", str(tmp_path), engine="", size=(120, 35))
    assert run.wait() == 2
    assert "can't record to" in run.text
    assert "\x1b[?1049h" not in run.raw.decode()
