"""The person's own pager has the terminal while it runs, and gives it back whatever happens."""

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

PAGER = """
import json, os, pathlib, sys
report, code, file = sys.argv[1:]
text = pathlib.Path(file).read_text()
others = os.stat(os.path.dirname(file)).st_mode & 0o077
pathlib.Path(report).write_text(json.dumps([file, text, others]))
print("\\r\\nTHE PAGER HAS IT", flush=True)
input()
sys.exit(int(code))
"""


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Set a pager that ends with that code; gives where it reports what it saw."""
    script, report = tmp_path / "a pager.py", tmp_path / "report.json"
    script.write_text(PAGER)

    def chosen(code: int) -> Path:
        command = shlex.join([sys.executable, str(script), str(report), str(code)])
        monkeypatch.setenv("PAGER", command)
        return report

    return chosen


def answered(run: Terminal, prompt: str = "hello") -> None:
    """An answer in both panes, which have the keys."""
    run.send(f"{prompt}\r")
    run.until(lambda: run.text.count("done") == 2)
    to_the_panes(run)


def to_the_panes(run: Terminal) -> None:
    run.send("\x1b")
    run.until_shown("i type")


def test_the_pane_s_whole_text_is_paged_from_a_private_file_that_is_gone_afterwards(
    terminal: Start, pager: Callable[[int], Path]
) -> None:
    report = pager(0)
    run = terminal(engine="--rate 400 --tokens 400")
    run.paste("say\x08 it")
    answered(run, "")
    run.send("o")
    run.until_shown("THE PAGER HAS IT")
    file, text, others = json.loads(report.read_text())
    assert text.startswith("> say\u2408 it\n\n## Why a circle")
    assert text.count("Why a circle") > 1
    assert others == 0
    assert Path(file).exists()
    run.send("\n")
    run.until(lambda: "THE PAGER" not in run.text)
    assert not Path(file).exists()
    run.send("\x11")
    assert run.wait() == 0
    assert run.modes_left_on() == []


def test_less_is_taken_without_a_setting(terminal: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setenv("LESS", "FRX")
    run = terminal(engine="--rate 200 --tokens 10")
    answered(run)
    run.send("o")
    run.until_shown("(END)")
    run.until_shown("> hello")
    run.send("q")
    run.until(lambda: "(END)" not in run.text)


def test_a_pager_that_fails_is_one_line(terminal: Start, pager: Callable[[int], Path]) -> None:
    pager(3)
    run = terminal(engine="--rate 200 --tokens 10")
    answered(run)
    run.send("o")
    run.until_shown("THE PAGER HAS IT")
    run.send("\n")
    run.until_shown("ended with 3")
    run.send("ihello")
    run.until(lambda: run.composer == ["hello"])


def test_a_pager_that_can_t_be_started_gives_the_terminal_back(
    terminal: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_program = tmp_path / "no-program"
    no_program.write_bytes(b"\x7fELF and no more")
    no_program.chmod(0o755)
    monkeypatch.setenv("PAGER", str(no_program))
    run = terminal(engine="--rate 200 --tokens 10")
    answered(run)
    run.send("o")
    run.until_shown("no-program can't be started")
    run.send("ihello")
    run.until(lambda: run.composer == ["hello"])


@pytest.mark.parametrize(
    ("setting", "words"), [("no-such-pager -x", "$PAGER names no-such-pager"), ("", "no pager: ")]
)
def test_where_there_is_no_pager_one_line_says_so(
    terminal: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, words: str
) -> None:
    monkeypatch.setenv("PAGER", setting)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    run = terminal(engine="--rate 200 --tokens 10")
    to_the_panes(run)
    run.send("o")
    run.until_shown("nothing to read yet")
    run.send("i")
    answered(run)
    run.send("o")
    run.until_shown(words)
