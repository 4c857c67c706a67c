"""Our parts of Textual's inside: what they do, and that Textual is still what they were for."""

from __future__ import annotations

import inspect
import io
import os
import sys
import termios
import time
import tty
from typing import IO, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType
from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.content import Content
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from dspark_tui.textual_private import (
    LastingWriter,
    PasteParser,
    PatientScreen,
    TerminalParser,
    WholeFrames,
    bytes_waiting,
    mend_driver,
    retitle_bottom,
)

BEGIN, END = "\x1b[200~", "\x1b[201~"
WILD = "hello \x1b[31mred\x1b[0m q\x03 \x11 \x1b world\x1b"
PIECES = st.sampled_from(["q", "\x1b", "[", "2", "0", "1", "~", "\x1b[20", "\x1b[A", "\x11", "é"])


def told(parser: XTermParser, *chunks: str) -> list[Message]:
    return [message for chunk in chunks for message in parser.feed(chunk)]


def in_words(messages: list[Message]) -> list[str]:
    return [
        f"paste {message.text}" if isinstance(message, events.Paste) else f"key {message.key}"
        for message in messages
        if isinstance(message, events.Paste | events.Key)
    ]


@pytest.mark.parametrize("size", range(1, 12))
def test_a_paste_is_one_text_however_it_is_cut_into_reads(size: int) -> None:
    typed = f"a{BEGIN}{WILD}{END}b\x1b[A{BEGIN}two\rlines{END}"
    chunks = [typed[at : at + size] for at in range(0, len(typed), size)]
    assert in_words(told(PasteParser(), *chunks)) == [
        "key a",
        "paste hello ␛[31mred␛[0m q␃ ␑ ␛ world␛",
        "key b",
        "key up",
        "paste two\nlines",
    ]


@given(st.lists(PIECES), st.lists(st.integers(1, 30)))
def test_what_is_pasted_never_becomes_keys(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces).replace(END, "")
    if any((text + END)[at:].startswith(END) for at in range(len(text))):
        return  # the text and the marker after it make an earlier marker
    typed, chunks = f"{BEGIN}{text}{END}", []
    for size in [*sizes, len(typed)]:
        chunks, typed = [*chunks, typed[:size]], typed[size:]
    messages = told(PasteParser(), *filter(None, chunks), typed or "x")
    assert isinstance(messages[0], events.Paste)
    assert messages[0].text == text.replace("\x1b", "␛").replace("\x11", "␑")
    assert in_words(messages[1:]) == ["key x"]


def type_into(hands: IO[bytes], keys: str) -> None:
    """Type, and wait until the terminal has it for whoever reads there."""
    there = bytes_waiting() + len(keys.encode())
    hands.write(keys.encode())
    deadline = time.monotonic() + 30
    while bytes_waiting() < there:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("early", "later", "last"),
    [
        ("hé\r", "", "key enter"),
        ("\r", "", "key enter"),
        ("one\rtwo\r", "", "key ctrl+j"),
        ("one\rtwo", "", "key o"),
        ("hé", "\n", "key ctrl+j"),
        (f"{BEGIN}two\rlines\r{END}", "", "paste two\nlines\n"),
    ],
)
def test_enter_is_enter_also_before_the_terminal_is_ours(
    monkeypatch: pytest.MonkeyPatch, early: str, later: str, last: str
) -> None:
    keyboard, terminal = os.openpty()
    with open(keyboard, "wb", buffering=0) as hands, open(terminal) as stdin:
        monkeypatch.setattr(sys, "__stdin__", stdin)
        tty.setcbreak(stdin, termios.TCSANOW)
        type_into(hands, early)
        tty.setraw(stdin, termios.TCSANOW)
        parser = TerminalParser()
        type_into(hands, later)
        first = os.read(terminal, 4096).decode()
        assert in_words(told(parser, first))[-1] == last


@given(st.lists(PIECES))
def test_keys_are_those_that_textual_makes_of_them(pieces: list[str]) -> None:
    typed = [piece for piece in pieces if BEGIN not in "".join(pieces)]
    assert in_words(told(PasteParser(), *typed)) == in_words(told(XTermParser(), *typed))


def test_textual_still_looks_for_its_parser_where_ours_is_put(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fails when Textual changes; then see whether `PasteParser` is still needed, and how."""
    monkeypatch.setattr(linux_driver, "XTermParser", XTermParser)
    assert "parser = XTermParser(self._debug)" in inspect.getsource(
        linux_driver.LinuxDriver.run_input_thread
    )
    assert "key ctrl+q" in in_words(told(XTermParser(), f"{BEGIN}\x1b[31m\x11{END}"))
    mend_driver()
    assert linux_driver.XTermParser is TerminalParser


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError("no terminal any more")

    def flush(self) -> None:
        raise OSError("no terminal any more")


def test_a_writer_whose_terminal_is_gone_still_takes_text_and_stops() -> None:
    writer = LastingWriter(Gone())
    writer.start()
    for _ in range(100):  # more than its queue holds
        writer.write("frame")
    writer.stop()
    assert not writer.is_alive()


def test_textual_still_looks_for_its_writer_where_ours_is_put() -> None:
    """Fails when Textual changes; then see whether `LastingWriter` is still needed, and how."""
    start = inspect.getsource(linux_driver.LinuxDriver.start_application_mode)
    assert "self._writer_thread = WriterThread(self._file)" in start
    assert "suppress" not in inspect.getsource(WriterThread.run)


class Framed(Static):
    DEFAULT_CSS = "Framed { border: round red; padding: 1 2; }"
    painted: ClassVar[list[int]] = []

    def render_line(self, y: int) -> Strip:
        self.painted.append(y)
        return super().render_line(y)


async def test_a_bottom_title_repaints_its_border_alone() -> None:
    app, framed = App[None](), Framed("a\nb")
    async with app.run_test(size=(30, 8)) as pilot:
        await app.mount(framed)
        await pilot.pause()
        Framed.painted.clear()
        retitle_bottom(framed, Content(" state "))
        await pilot.pause()
        lines = framed.render_lines(Region(0, 0, *framed.outer_size))
        assert "state" in lines[-1].text
        assert Framed.painted == []


class Frames(WholeFrames[None]):
    """Notes how many frames were rendered, and how many were shown."""

    def __init__(self) -> None:
        super().__init__()
        self.rendered = self.shown = 0

    def on_mount(self) -> None:
        self.push_screen(PatientScreen())

    def _display(self, screen: Screen, renderable: RenderableType | None) -> None:
        if renderable is not None and not isinstance(screen, PatientScreen):
            return
        self.rendered += renderable is not None
        self.shown += renderable is not None and not self._batch_count


async def test_a_batch_of_updates_is_one_frame_and_none_is_rendered_for_nothing() -> None:
    async with (app := Frames()).run_test() as pilot:
        await pilot.pause()
        for width in (60, 70, 80):
            with app.batch_update():
                before = app.rendered
                await pilot.resize_terminal(width, 20)
                assert app.rendered == before
            assert app.rendered == before + 1, "at once, not with the next tick of a clock"
            await pilot.pause()
        assert app.shown == app.rendered
