"""The person's own editor has the terminal while it runs, and gives it back whatever happens."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pty.conftest import Terminal

pytestmark = pytest.mark.pty

Start = Callable[..., Terminal]

EDITOR = """
import json, os, pathlib, sys
report, how, file = sys.argv[1:]
text = pathlib.Path(file).read_text()
others = os.stat(os.path.dirname(file)).st_mode & 0o077
pathlib.Path(report).write_text(json.dumps([file, text, others]))
if how == "wait":
    print("\\r\\nTHE EDITOR HAS IT", flush=True)
    input()
pathlib.Path(file).write_text(text + " and more\\n")
sys.exit(3 if how == "fail" else 0)
"""


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Set an editor that works as told; gives where it reports what it saw."""
    script, report = tmp_path / "an editor.py", tmp_path / "report.json"
    script.write_text(EDITOR)

    def chosen(how: str) -> Path:
        command = shlex.join([sys.executable, str(script), str(report), how])
        monkeypatch.setenv("VISUAL", command)
        return report

    return chosen


def test_the_text_is_edited_in_a_private_file_that_is_gone_afterwards(
    terminal: Start, editor: Callable[[str], Path]
) -> None:
    report = editor("append")
    run = terminal()
    run.send("some words\x07")
    run.until_shown("some words and more")
    file, *seen = json.loads(report.read_text())
    assert seen == ["some words", 0]
    assert not Path(file).exists()
    run.send("!")
    run.until_shown("and more!")
    run.paste("pasted as one")
    run.until_shown("and more!pasted as one")
    assert set(run.modes_left_on()) == {
        "alternate screen",
        "mouse",
        "mouse motion",
        "paste",
        "focus",
    }
    run.send("\x11")
    assert run.wait() == 0
    assert run.modes_left_on() == []


def test_answers_are_not_drawn_over_an_editor_and_are_there_after_it(
    terminal: Start, editor: Callable[[str], Path]
) -> None:
    editor("wait")
    run = terminal(engine="--rate 50 --tokens 200")
    run.send("stream on\r")
    run.until_shown("Why a circle")
    run.send("/edit\r")
    run.until_shown("THE EDITOR HAS IT")
    run.until(lambda: not run.read(0.7))  # the panes alone would be drawn ten times meanwhile
    run.send("\n")
    run.until(lambda: run.text.count("done") == 2 and run.composer == ["and more"])
    run.until(lambda: "THE EDITOR" not in run.text)


@pytest.mark.parametrize(
    ("how", "key", "words"), [("fail", "", "ended with 3"), ("wait", "\x03", "ended with")]
)
def test_an_editor_that_fails_costs_nothing(
    terminal: Start, editor: Callable[[str], Path], how: str, key: str, words: str
) -> None:
    editor(how)
    run = terminal()
    run.send("some words\x07")
    if key:
        run.until_shown("THE EDITOR HAS IT")
        run.send(key)
    run.until_shown(words)
    run.until(lambda: run.composer == ["some words"])
    run.send("!")
    run.until_shown("some words!")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("no-such-editor -w", "$VISUAL names no-such-editor"),
        ("'open", "$VISUAL can't be understood"),
    ],
)
def test_an_editor_that_can_t_be_run_is_named(
    terminal: Start, monkeypatch: pytest.MonkeyPatch, setting: str, words: str
) -> None:
    monkeypatch.setenv("VISUAL", setting)
    run = terminal()
    run.send("some words\x07")
    run.until_shown(words)
    run.until(lambda: run.composer == ["some words"])


def test_without_a_setting_an_installed_editor_is_taken(
    terminal: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    vi = tmp_path / "vi"
    vi.write_text('#!/bin/sh\nprintf "from vi" > "$1"\n')
    vi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    run = terminal()
    run.send("some words\x07")
    run.until_shown("from vi")
