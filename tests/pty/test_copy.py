"""Copies as another program or the terminal gets them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pty.conftest import Terminal

pytestmark = pytest.mark.pty
Start = Callable[..., Terminal]
SOURCE = "for n in range(3):\n    print(n * n)"


def copy_code(terminal: Start) -> Terminal:
    run = terminal("--pane", "max_tokens=20", "--pane", "max_tokens=20", size=(60, 24))
    run.send("#code\r")
    run.until_shown("token limit")
    run.send("\x1b")
    run.until_shown("i type")
    run.send("Y1")
    return run


def test_the_system_s_own_program_gets_the_source(
    terminal: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, taken = tmp_path / "xclip", tmp_path / "taken"
    program.write_text(f"#!/bin/sh\nexec /bin/cat > {taken}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":9")
    for name in ("SSH_TTY", "SSH_CONNECTION", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    run = copy_code(terminal)
    run.until_shown("with xclip")
    assert taken.read_text() == SOURCE
    assert b"\x1b]52;" not in run.raw


def test_else_the_terminal_gets_it(terminal: Start) -> None:
    run = copy_code(terminal)
    run.until_shown("OSC 52")
    (sent,) = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", run.raw)
    assert base64.b64decode(sent).decode() == SOURCE
