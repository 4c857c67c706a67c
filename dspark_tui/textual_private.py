"""Everything that relies on Textual's private names, in one place. Written against Textual 8.2."""

from __future__ import annotations

import fcntl
import sys
import termios
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import IO, TypeVar

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.app import App
from textual.content import Content
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.geometry import Region
from textual.message import Message
from textual.notifications import Notifications
from textual.screen import Screen
from textual.widget import Widget

from dspark_tui.text.foreign import harmless

T = TypeVar("T")

OVERLAP = len(BRACKETED_PASTE_START) - 1
"""Characters of a marker that may have come with an earlier read than its last one."""


class PasteParser(XTermParser):
    """Textual's parser, but a paste is one text up to its end marker, whatever it holds.

    Textual takes an escape character in a paste for the start of a key, and types the rest.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        self._recent = ""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)  # the end of the input
        while data:
            if self._pasted is None:
                data = yield from self._feed_keys(data)
            else:
                data = yield from self._feed_paste(self._pasted, data)

    def _feed_keys(self, data: str) -> Generator[Message, None, str]:
        """Hand over what was typed; returns what came after the start of a paste."""
        known = len(self._recent)
        before, start, _ = (self._recent + data).partition(BRACKETED_PASTE_START)
        if not start:
            self._recent = before[-OVERLAP:]
            yield from super().feed(data)
            return ""
        end = len(before) + len(start) - known
        for message in super().feed(data[:end] + BRACKETED_PASTE_END):
            if not isinstance(message, events.Paste):  # an empty one, by the marker we added
                yield message
        self._recent, self._pasted = "", []
        return data[end:]

    def _feed_paste(self, pasted: list[str], data: str) -> Generator[Message, None, str]:
        """Collect the paste; returns what came after its end."""
        text, end, rest = (self._recent + data).partition(BRACKETED_PASTE_END)
        if not end:
            pasted.append(text[:-OVERLAP])
            self._recent = text[-OVERLAP:]
            return ""
        self._recent, self._pasted = "", None
        yield events.Paste(harmless("".join([*pasted, text])))
        return rest


class TerminalParser(PasteParser):
    """For what a terminal sends, from before it was ours on.

    Until then the terminal makes a line break of Enter, as programs that read lines want it. One
    at the end of what was typed by then is Enter; several are more likely of a pasted text.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._early = bytes_waiting()

    def feed(self, data: str) -> Iterable[Message]:
        size = len(data.encode()[: self._early].decode(errors="ignore"))
        self._early = 0  # it all comes with the first read
        if data.find("\n", 0, size) == size - 1 >= 0:
            data = f"{data[: size - 1]}\r{data[size:]}"
        yield from super().feed(data)


def bytes_waiting() -> int:
    """How much can be read from the terminal at once."""
    if sys.__stdin__ is None or not sys.__stdin__.isatty():
        return 0
    size = fcntl.ioctl(sys.__stdin__, termios.FIONREAD, bytes(4))
    return int.from_bytes(size, sys.byteorder)


class WholeFrames(App[T]):
    """An app that draws once a batch of updates is over.

    Textual would render frames within it as well, and show none of them.
    """

    def _end_batch(self) -> None:
        super()._end_batch()
        if not self._batch_count and self.screen_stack:
            screen = self.screen
            if isinstance(screen, PatientScreen):
                screen.catch_up()


class PatientScreen(Screen[T]):
    """A screen of such an app."""

    _late = False

    def catch_up(self) -> None:
        """Draw what was to be drawn within the batch."""
        if self._late:
            self._late = False
            self._compositor_refresh()

    def _compositor_refresh(self) -> None:
        if self.app._batch_count:
            self._late = True
        else:
            super()._compositor_refresh()


def forward(widget: Widget, key: events.Key) -> None:
    """Give a key to a widget as the app does, so that it is not given out anew once it bubbles."""
    widget._forward_event(key.copy())


def refresh_notices(app: App[None]) -> None:
    """Take those whose time is over off the screen."""
    app._refresh_notifications()


def keep_notices_in(app: App[None], notices: Notifications) -> None:
    """Have the app keep what it notifies of there. Call it before there is any."""
    app._notifications = notices


def allow_switch(screen: Screen[None]) -> None:
    """Let `switch_screen` replace an app's default screen, which was never pushed.

    Textual takes a pushed screen's callback from it there, and fails where there is none.
    """
    screen._push_result_callback(screen, None)


def was_taken(event: events.Event) -> bool:
    """Did a widget keep it from those it is in?"""
    return event._stop_propagation


def retitle_bottom(widget: Widget, title: Content) -> None:
    """Give a widget's lower border a title of one line, and repaint only that border.

    Textual's own attribute repaints the whole widget and all that is in it.
    """
    widget._border_subtitle = title
    x, y = widget.content_offset
    width, height = widget.outer_size
    widget.refresh(Region(-x, height - 1 - y, width, 1))


class LastingWriter(WriterThread):
    """Textual's, but it outlives the terminal.

    Textual's ends with the first failed write. Nobody takes what is put into its queue then, and
    whoever puts there, as the way out does, waits for ever.
    """

    def __init__(self, file: IO[str]) -> None:
        super().__init__(_Forgiving(file))  # type: ignore[arg-type]


class _Forgiving:
    """A file into which what can't be written is lost."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()


def _resume(driver: linux_driver.LinuxDriver, *_: object) -> None:
    """For SIGCONT: come back only from where SIGTSTP led.

    Textual starts its threads again at any SIGCONT. One comes with the SIGHUP of a terminal that
    goes, and the threads it starts then keep the process for ever.
    """
    if driver._must_signal_resume:
        driver.resume_application_mode()


def mend_driver() -> None:
    """Have Textual's driver use our parser, writer and resuming in apps started from now on."""
    linux_driver.XTermParser = TerminalParser  # type: ignore[misc]
    linux_driver.WriterThread = LastingWriter  # type: ignore[misc]
    linux_driver.LinuxDriver._sigcont_application = _resume  # type: ignore[assignment,method-assign]
