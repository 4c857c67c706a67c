"""The keys of the bottom line inside a tmux that nobody configured."""

from __future__ import annotations

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


class Tmux:
    """A server of its own with one window that runs the workbench."""

    def __init__(self, socket: Path) -> None:
        self._base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        fresh = ["env", "-u", "COLUMNS", "-u", "LINES"]  # the size is what tmux says
        command = [*fresh, sys.executable, "-m", "tests.pty.workbench", "--engine", "--rate 100"]
        self.run("new-session", "-d", "-x", "120", "-y", "35", *command)

    def run(self, *words: str) -> str:
        root = Path(__file__).parents[2]
        done = subprocess.run([*self._base, *words], cwd=root, capture_output=True, text=True)
        return done.stdout

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def until(self, condition: Callable[[str], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition(screen := self.run("capture-pane", "-p")):
            assert time.monotonic() < deadline, f"never came true; the screen:\n{screen}"
            time.sleep(0.05)

    def until_shown(self, text: str) -> None:
        self.until(lambda screen: text in screen)


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    started = Tmux(tmp_path_factory.mktemp("t") / "s")
    yield started
    started.run("kill-server")


def test_every_key_of_the_bottom_line_does_what_it_says(tmux: Tmux) -> None:
    tmux.until_shown("^Q quit")
    tmux.press("one", "C-j", "two")
    tmux.until(lambda screen: "│ one " in screen and "│ two " in screen)
    tmux.press("C-c")
    tmux.until_shown("Ask something")
    tmux.press("C-t")
    tmux.until_shown("to 1 only")
    tmux.press("hello", "Enter")
    tmux.until_shown("› hello")
    for key, shown in (("F1", "Esc closes"), ("F2", "Enter apply"), ("C-p", "Search")):
        tmux.press(key)
        tmux.until_shown(shown)
        tmux.press("Escape")
        tmux.until(lambda screen, shown=shown: shown not in screen)
    tmux.press("F4")
    tmux.until_shown("layout: columns")
    tmux.press("F3", "F3")
    tmux.until(lambda screen: "› hello" not in screen)
    tmux.press("F3")
    tmux.until_shown("› hello")
    tmux.press("Escape")
    tmux.until_shown("i type")
    tmux.press("C-c", "C-q")
    tmux.until(lambda screen: "dspark-tui" not in screen or "all the same" in screen)
