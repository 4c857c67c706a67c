"""Colours as bytes: those of the theme, or none at all."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.pty.conftest import Terminal

pytestmark = pytest.mark.pty
REVERSE = "7"


def styles(run: Terminal) -> set[str]:
    """Every parameter of every SGR sequence it wrote."""
    found = re.findall(rb"\x1b\[([0-9;]*)m", run.raw)
    return {part for parameters in found for part in parameters.decode().split(";")}


def show_everything(run: Terminal) -> None:
    """A conversation, then each dialog over it."""
    run.send("#code\r")
    run.until(lambda: run.text.count("token limit  ") >= 2)
    for key, title in (("\x1bOQ", "Temperature"), ("\x1bOP", "typing"), ("\x10", "Search")):
        run.send(key)
        run.until_shown(title)
        run.send("\x1b")
        run.until(lambda title=title: title not in run.text)


@pytest.mark.parametrize("theme", ["ember", "terminal", "paper"])
def test_no_color_is_no_colour_and_what_is_chosen_still_shows(
    terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = terminal("--theme", theme, "--pane", "max_tokens=40", "--pane", "max_tokens=40")
    show_everything(run)
    colours = {str(n) for n in (*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108))}
    assert not colours & styles(run)
    assert REVERSE in styles(run)


def test_colours_are_sent_where_they_may_be(
    terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    run = terminal()
    assert {"38", "48"} <= styles(run)
