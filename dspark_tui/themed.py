"""What full-screen commands share: themes, leaving cleanly on signals, faults in one line."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from textual import events
from textual.dom import DOMNode
from textual.filter import LineFilter, NoColor
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.theme import BUILTIN_THEMES, Theme
from textual.widget import Widget

from dspark_tui import textual_private
from dspark_tui.appearance import theming
from dspark_tui.appearance.roles import role_variables
from dspark_tui.appearance.seven_bit import SevenBit
from dspark_tui.appearance.theme_folder import ThemeFolder
from dspark_tui.notices import PASSING, Notices
from dspark_tui.paths import Paths
from dspark_tui.text.foreign import drawable

log = logging.getLogger(__name__)

DEFAULT_THEME = "ember"

KEY_PATIENCE = 1.0
"""Seconds after which a key that still works is not waited for any longer."""

NOTICES_SHOWN = 3
"""Of those on theme files, in one notice."""

LOOK_PERIOD = 0.4
"""Seconds between two looks for theme files that were edited."""


class ThemedApp(textual_private.WholeFrames[None]):
    """failure: one line when it ended by a fault of its own, for whoever started it to print."""

    TITLE = "dspark-tui"
    _styled: Theme | None = None
    """What the styles were read with last."""
    _rising = 0
    """Messages in our queue that later keys wait behind, as keys do that no widget took and that
    are for the screen's bindings."""

    def __init__(self, paths: Paths, theme: str, ascii: bool) -> None:
        """theme: its name; "" is the default one."""
        textual_private.mend_driver()
        super().__init__()
        textual_private.keep_notices_in(self, Notices())
        self.failure = ""
        self.help_keys: Collection[str] = ()  # that open the help over a dialog
        self._theme_notices: list[str] = []
        self.set_class(ascii, "-ascii")
        self._user_themes = paths.config.parent / "themes"
        self._theme_folder = ThemeFolder(self._user_themes)
        self._wear(theme or DEFAULT_THEME)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def refresh_css(self, animate: bool = True) -> None:
        """As Textual's, which at the start would read the same styles a second time."""
        if self.current_theme is not self._styled:
            self._styled = self.current_theme
            super().refresh_css(animate)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With NO_COLOR no colour is sent at all; Textual alone would send greys."""
        filters = [NoColor()] if self.no_color else super().get_line_filters()
        return [*filters, SevenBit()] if self.has_class("-ascii") else filters

    def post_message(self, message: Message) -> bool:
        if isinstance(message, events.Key) and message.is_forwarded:
            self._rising += 1
        return super().post_message(message)

    async def on_event(self, event: events.Event) -> None:
        """Give out keys one by one: the next may be for where this one moves the focus.

        A key that no widget took comes back up, for the bindings of the screen it went to. What
        was typed after it waits behind it.
        """
        typed = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if typed and self._rising:
            self.post_message(event)
            return
        if isinstance(event, events.Key) and event.is_forwarded:
            self._rising -= 1
        if typed and self.screen_stack:
            await self._give_out(event)
        else:
            await super().on_event(event)

    async def _give_out(self, event: events.Event) -> None:
        """Give it to whatever has the focus, and wait until it is dealt with."""
        if self.focused is None:  # a screen that has just come may be about to focus something
            with suppress(TimeoutError):
                async with asyncio.timeout(KEY_PATIENCE):
                    await self._passed(self.screen)
        target = self.focused or self.screen
        await super().on_event(event)
        await self._passed_on(event, target)

    async def _passed_on(self, event: events.Event, target: Widget) -> None:
        """Wait until what was given to the widget was taken, or has come back up here.

        A screen that is shown instead then has heard by now what the other one led to.
        """
        screen = self.screen
        with suppress(TimeoutError):
            async with asyncio.timeout(KEY_PATIENCE):
                for node in target.ancestors_with_self:
                    await self._passed(node)
                    if textual_private.was_taken(event):
                        break
                if self.screen is not screen:
                    await self._passed(self.screen)

    async def _passed(self, node: DOMNode) -> None:
        """Wait until the node has dealt with what is in its queue."""
        handled = asyncio.Event()
        if node is not self and node.call_later(handled.set):
            await handled.wait()

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # without this the terminal would stay in mouse, paste and alternate-screen mode
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.exit)
        self.set_interval(LOOK_PERIOD, self._reload_themes)
        self.call_after_refresh(self._begin_loading)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """As Textual's, but what a notice quotes is never markup nor a control code."""
        lines = "\n".join(map(drawable, message.split("\n")))
        super().notify(lines, title=title, severity=severity, timeout=timeout, markup=markup)

    def on_notify(self) -> None:
        """Look again when earlier ones have to leave because of this one."""
        self.set_timer(PASSING, partial(textual_private.refresh_notices, self))

    def _wear(self, wanted: str) -> None:
        """Load the theme to begin with; the others can wait until the first frame is out.

        Textual's own have no roles of ours: they are only there in case none of ours can be had.
        """
        theme = theming.load_named(wanted, self._user_themes)
        if theme is None:
            self._theme_notices.append(theming.unknown(wanted, self._user_themes))
            theme = theming.load_named(DEFAULT_THEME) or BUILTIN_THEMES["textual-dark"]
        self.register_theme(theme)
        self.theme = theme.name
        for name in BUILTIN_THEMES.keys() - {theme.name}:
            self.unregister_theme(name)
        self.stylesheet.set_variables(self.get_css_variables())
        self._styled = self.current_theme

    def _begin_loading(self) -> None:
        self.run_worker(self._load_themes(), group="themes", exit_on_error=False)

    async def _load_themes(self) -> None:
        """All of them, so that they can be chosen, and say what is wrong with any."""
        themes, problems = await asyncio.to_thread(theming.load_themes, self._user_themes)
        for theme in themes:
            self.register_theme(theme)
        notices = [*self._theme_notices, *map(str, problems)]
        if more := notices[NOTICES_SHOWN:]:
            notices[NOTICES_SHOWN:] = [f"and {len(more)} more; dspark-tui doctor lists them"]
        if notices:
            self.notify("\n".join(notices), severity="warning", timeout=12)

    def _reload_themes(self) -> None:
        """Take over edited theme files; what is wrong with one is said once and changes nothing."""
        for file in self._theme_folder.changed():
            theme, problems = theming.load_theme(file)
            if problems:
                self.notify(str(problems[-1]), severity="warning", markup=False)
            if theme is not None:
                self.register_theme(theme)
                if theme.name == self.theme:
                    self.mutate_reactive(ThemedApp.theme)

    def _fatal_error(self) -> None:
        """Textual's own prints a traceback over the terminal; ours goes to the log."""
        log.critical("the workbench failed", exc_info=True)
        error = sys.exc_info()[1]
        self.failure = f"{type(error).__name__}: {error}"
        self._close_messages_no_wait()
