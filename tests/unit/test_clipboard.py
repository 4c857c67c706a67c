"""Which route a copy takes, and that no more is said than is known."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dspark_tui import clipboard
from dspark_tui.clipboard import Clipboard

TEXT = "größer > kleiner\n"
Open = Callable[..., "Desk"]


class Desk:
    """A clipboard among programs made for the test."""

    def __init__(self, folder: Path, environ: dict[str, str], platform: str) -> None:
        self.folder = folder
        self.terminal: list[str] = []
        self.spare = folder / "state" / "copied.txt"
        environ = {"PATH": str(folder), "TERM": "xterm-256color", **environ}
        self.clipboard = Clipboard(self.terminal.append, self.spare, environ, platform)

    def install(self, name: str, body: str = "") -> None:
        """A program that keeps its input in NAME.txt, unless `body` says otherwise."""
        keeps = f"open({str(self.folder / name)!r} + '.txt', 'wb').write(sys.stdin.buffer.read())"
        program = self.folder / name
        program.write_text(f"#!{sys.executable}\nimport sys, time\n{body or keeps}\n")
        program.chmod(0o755)

    def taken(self, name: str) -> str:
        return (self.folder / f"{name}.txt").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that have to start on a busy machine."""
    monkeypatch.setattr(clipboard, "TIMEOUT", 60.0)


@pytest.fixture
def desk(tmp_path: Path) -> Callable[..., Desk]:
    def opened(platform: str = "linux", **environ: str) -> Desk:
        return Desk(tmp_path, environ, platform)

    return opened


@pytest.mark.parametrize(
    ("program", "platform", "environ"),
    [
        ("pbcopy", "darwin", {"TERM_PROGRAM": "Apple_Terminal"}),
        ("wl-copy", "linux", {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}),
        ("xclip", "linux", {"DISPLAY": ":0"}),
        ("xsel", "linux", {"DISPLAY": ":0"}),
    ],
)
async def test_the_system_s_own_program_is_run_and_named(
    desk: Open, program: str, platform: str, environ: dict[str, str]
) -> None:
    here = desk(platform, **environ)
    here.install(program)
    assert await here.clipboard.copy(TEXT) == f"copied 17 characters with {program}"
    assert here.taken(program) == TEXT
    assert here.clipboard.text == TEXT
    assert here.terminal == []


async def test_without_a_program_the_terminal_gets_it_and_nothing_is_promised(desk: Open) -> None:
    here = desk(DISPLAY=":0")
    said = await here.clipboard.copy(TEXT)
    assert here.terminal == [TEXT]
    assert "sent 17 characters to the terminal (OSC 52), which does not say" in said
    assert "copied" not in said


@pytest.mark.parametrize(
    ("platform", "environ"), [("linux", {"WAYLAND_DISPLAY": "w"}), ("darwin", {})]
)
async def test_over_ssh_only_the_terminal_reaches_the_person_s_screen(
    desk: Open, platform: str, environ: dict[str, str]
) -> None:
    here = desk(platform, SSH_CONNECTION="10.0.0.1 5 10.0.0.2 22", **environ)
    here.install("pbcopy")
    here.install("wl-copy")
    await here.clipboard.copy(TEXT)
    assert here.terminal == [TEXT]


@pytest.mark.parametrize("body", ["sys.exit(3)", "time.sleep(60)"])
async def test_a_program_that_fails_is_named_and_the_next_route_taken(
    desk: Open, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "TIMEOUT", 0.5)
    here = desk(DISPLAY=":0")
    here.install("xclip", body)
    said = await here.clipboard.copy(TEXT)
    assert said.startswith(("xclip failed (3); sent", "xclip did not answer; sent"))
    assert here.terminal == [TEXT]


async def test_where_no_terminal_could_take_it_a_failed_program_leaves_a_file(desk: Open) -> None:
    here = desk("darwin", TERM_PROGRAM="Apple_Terminal")
    here.install("pbcopy", "sys.exit(1)")
    said = await here.clipboard.copy(TEXT)
    assert said.startswith("pbcopy failed (1); ")
    assert str(here.spare) in said
    assert here.spare.read_text(encoding="utf-8") == TEXT
    assert here.terminal == []


STAYS = """
import os
sys.stdin.read()
if not os.fork():
    while not os.path.exists({over!r}):
        time.sleep(0.05)
"""


async def test_a_program_that_stays_behind_to_serve_the_clipboard_is_not_waited_for(
    desk: Open, tmp_path: Path
) -> None:
    here, over = desk(WAYLAND_DISPLAY="w"), tmp_path / "over"
    here.install("wl-copy", STAYS.format(over=str(over)))
    try:
        assert (await here.clipboard.copy(TEXT)).startswith("copied")
    finally:
        over.touch()


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (TEXT, {"TERM": "linux"}),
        (TEXT, {"TERM_PROGRAM": "Apple_Terminal"}),
        ("x" * 100_000, {}),
    ],
)
async def test_what_no_clipboard_takes_is_in_a_file_that_is_named(
    desk: Open, text: str, environ: dict[str, str]
) -> None:
    here = desk(**environ)
    said = await here.clipboard.copy(text)
    assert str(here.spare) in said
    assert here.spare.read_text(encoding="utf-8") == text
    assert here.terminal == []


async def test_where_even_that_fails_it_is_said(desk: Open) -> None:
    here = desk(TERM="dumb")
    here.spare.parent.touch()
    assert (await here.clipboard.copy(TEXT)).startswith("not copied: ")


async def test_half_a_surrogate_pair_is_no_fault(desk: Open) -> None:
    here = desk()
    await here.clipboard.copy("a\ud800b")
    assert here.terminal == ["a?b"]
