"""The keys of the bottom line inside a tmux that nobody configured."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pty.conftest import DEADLINE

pytestmark = [
    pytest.mark.pty,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
Start = Callable[[str, str], "Tmux"]

TYPING = (
    *("Enter send", "^J newline", "Esc panes", "^C stop", "^T target", "F1 help", "F2 params"),
    *("F3 batch", "F4 layout", "^P actions", "^Q quit"),
)
IN_PANES = (
    *("i type", "s stop", "r again", "e edit", "f fork", "^T target", "z zoom", "+ new", "x close"),
    *("F1 help", "F2 params", "d diff", "y copy", "F3 batch", "F4 layout", "^P actions"),
    *("L requests", "^Q quit"),
)
IN_REQUESTS = ("Up Down choose", "x cancel", "w CSV", "p pause", "Esc panes")
SHEETS = (("F1", "Esc closes"), ("F2", "Enter apply"), ("C-p", "Search"))


class Tmux:
    """A server of its own with one window that runs the workbench, wide enough for all its keys."""

    def __init__(self, socket: Path, engine: str, pane: str) -> None:
        self._base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        # Python's readline, which pytest loads, sets these where `os.environ` does not see it.
        fresh = ["env", "-u", "COLUMNS", "-u", "LINES"]
        command = [*fresh, sys.executable, "-m", "tests.pty.workbench", "--engine", engine]
        command += ["--pane", pane] * 2
        self.run("new-session", "-d", "-x", "200", "-y", "50", *command)

    def run(self, *words: str) -> str:
        root = Path(__file__).parents[2]
        done = subprocess.run([*self._base, *words], cwd=root, capture_output=True, text=True)
        return done.stdout

    @property
    def alive(self) -> bool:
        return bool(self.run("list-sessions"))

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def until(self, condition: Callable[[str], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition(screen := self.run("capture-pane", "-p")):
            assert time.monotonic() < deadline, f"never came true; the screen:\n{screen}"
            time.sleep(0.05)

    def until_shown(self, *texts: str) -> None:
        self.until(lambda screen: all(text in screen for text in texts))

    def until_gone(self, text: str) -> None:
        self.until(lambda screen: text not in screen)

    def until_bar(self, keys: tuple[str, ...]) -> None:
        """Until the bottom line offers these keys and no others."""

        def offered(screen: str) -> tuple[str, ...]:
            return tuple(re.split(" {2,}", "".join(screen.split("\n")[49:]).strip()))

        self.until(lambda screen: offered(screen) == keys)


@pytest.fixture
def tmux(sockets: Path) -> Iterator[Start]:
    started: list[Tmux] = []

    def start(engine: str, pane: str) -> Tmux:
        started.append(Tmux(sockets / f"tmux-{len(started)}", engine, pane))
        started[-1].until_bar(TYPING)
        return started[-1]

    yield start
    for server in started:
        server.run("kill-server")


def open_and_leave_sheets(tmux: Tmux) -> None:
    for key, shown in SHEETS:
        tmux.press(key)
        tmux.until_shown(shown)
        tmux.press("Escape")
        tmux.until_gone(shown)


def change_sizes_and_target(tmux: Tmux) -> None:
    """Afterwards all is as before."""
    tmux.press("F4")
    tmux.until_shown("layout: columns")
    tmux.press("F4", "F4", "F4")
    tmux.until_shown("layout: grid")
    tmux.press("F3")
    tmux.until_gone(" › 1 ━")
    tmux.press("F3")
    tmux.until_gone("╭─ batch")
    tmux.press("F3", "F3", "F3")
    tmux.until_shown(" › 1 ━", "╭─ batch")
    tmux.press("C-t")
    tmux.until_shown("to 1 only")
    tmux.press("C-t")
    tmux.until_shown("to 1 2  broadcast")


def test_every_key_offered_while_typing_does_what_it_says(tmux: Start) -> None:
    here = tmux("--rate 100", "max_tokens=30")
    here.press("one", "C-j", "two")
    here.until_shown("│ one ", "│ two ")
    here.press("C-c")
    here.until_shown("Ask something")
    open_and_leave_sheets(here)
    change_sizes_and_target(here)
    here.press("hello", "Enter")
    here.until(lambda screen: screen.count("› hello") == screen.count("token limit  30 tok") == 2)
    here.press("Escape")
    here.until_bar(IN_PANES)
    here.press("i")
    here.until_bar(TYPING)
    here.press("C-q")
    here.until(lambda _: not here.alive)


def test_every_key_offered_in_the_panes_does_what_it_says(tmux: Start) -> None:
    here = tmux("--rate 100", "max_tokens=30")
    here.press("hello", "Enter")
    here.until(lambda screen: screen.count("token limit  30 tok") == 2)
    here.press("Escape")
    here.until_bar(IN_PANES)
    open_and_leave_sheets(here)
    change_sizes_and_target(here)
    here.press("r")
    here.until_shown("‹ 2/2 ›  new seed")
    here.until(lambda screen: screen.count("raises the limit") == 2)
    here.press("e")
    here.until_shown("edits 1's last prompt", "│ hello ")
    here.press("C-c")
    here.until_shown("to 1 2  broadcast")
    here.press("Escape")
    here.until_bar(IN_PANES)
    here.press("z")
    here.until_gone("› 2 ─")
    here.press("z")
    here.until_shown("› 2 ─")
    here.press("d")
    here.until_shown("words: all 30 equal")
    here.press("Escape")
    here.until_gone("words: all")
    here.press("y")
    here.until_shown("OSC 52")
    here.press("f")
    here.until(lambda screen: "to 1 2 3" in screen and screen.count("› hello") == 3)
    here.press("x")
    here.until_shown("Close it all the same?")
    here.press("Enter")
    here.until_gone("to 1 2 3")
    here.press("+")
    here.until_shown("to 1 2 3")
    here.press("x")
    here.until_gone("to 1 2 3")
    here.press("C-q")
    here.until(lambda _: not here.alive)


def test_keys_offered_while_answers_run_stop_cancel_and_pause(tmux: Start) -> None:
    here = tmux("--rate 30 --tokens 100000", "max_tokens=100000")
    here.press("hello", "Enter")
    here.until_shown("2 of 8 slots busy")
    here.press("C-c")
    here.until_shown("✗ stopped", "1 of 8 slots busy")
    here.press("Escape")
    here.until_bar(IN_PANES)
    here.press("L")
    here.until_bar(IN_REQUESTS)
    here.press("p")
    here.until_shown("paused: new requests wait")
    here.press("p")
    here.until_gone("paused: new requests wait")
    here.press("Up", "Down", "x")
    here.until_shown("cancelled r2 2", "0 of 8 slots busy")
    here.press("Escape")
    here.until_bar(IN_PANES)
    here.press("r")
    here.until_shown("1 of 8 slots busy")
    here.press("s")
    here.until_shown("0 of 8 slots busy")
    here.press("r")
    here.until_shown("1 of 8 slots busy")
    here.press("C-q")
    here.until_shown("all the same?")
    here.press("C-q")
    here.until(lambda _: not here.alive)
