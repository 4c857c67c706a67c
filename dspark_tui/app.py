"""The Textual app: themes, signals, what is remembered, and the engine's lifetime."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from textual.app import App

from dspark_tui import glyphs, theming
from dspark_tui.config import Settings
from dspark_tui.link import EngineLink
from dspark_tui.paths import Paths
from dspark_tui.roles import role_variables
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.palette import ActionCommands
from dspark_tui.screens.workbench import Workbench
from dspark_tui.session import Session, Target
from dspark_tui.state import UiState
from dspark_tui.widgets.batch_panel import Mode

log = logging.getLogger(__name__)

DEFAULT_THEME = "ember"


@dataclass(frozen=True, slots=True)
class Start:
    """How to begin. notices: lines to show once. prompt: broadcast as the first one, if not ""."""

    settings: Settings
    paths: Paths
    notices: tuple[str, ...] = ()
    prompt: str = ""


class DsparkApp(App[None]):
    """failure: one line when it ended by a fault of its own, for whoever started it to print."""

    TITLE = "dspark-tui"
    CSS_PATH: ClassVar = ["styles/workbench.tcss", "styles/dialogs.tcss"]
    COMMANDS: ClassVar = {ActionCommands}
    COMMAND_PALETTE_BINDING = "f12"  # the table of actions has our own keys for it

    def __init__(self, start: Start, link: EngineLink) -> None:
        super().__init__()
        self.failure = ""
        self._start = start
        self._link = link
        self._state = UiState.load(start.paths.state)
        self._notices = list(start.notices)
        settings = start.settings
        signs = glyphs.ASCII if settings.ascii else glyphs.DEFAULT
        target = Target(self._state.target) if self._state.target in list(Target) else Target.ALL
        panel = settings.panel if settings.panel != "auto" else self._state.panel
        self.workbench = Workbench(
            Session(settings.panes, target), link, signs, Mode(panel) if panel else None
        )
        self._load_themes()
        self._first_theme = self.theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # without this the terminal would stay in mouse, paste and alternate-screen mode
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.exit)
        self.set_class(self._start.settings.ascii, "-ascii")
        self.push_screen(self.workbench)
        self.call_after_refresh(self._painted)

    async def _painted(self) -> None:
        """The first frame is on screen: now the slow things may begin."""
        for notice in self._notices:
            self.notify(notice, severity="warning", timeout=12, markup=False)
        gc.collect()
        gc.freeze()
        if self._start.prompt:
            self.workbench.session.target = Target.ALL
            self.workbench.send(self._start.prompt)
        self.run_worker(self._link.start(), group="link", exit_on_error=False)

    async def action_quit(self) -> None:
        """ctrl+q from anywhere; pressed again at the question it asks, it means it."""
        if isinstance(self.screen, Confirm):
            self.exit()
        else:
            self.workbench.action_quit()

    def action_help_quit(self) -> None:
        self.notify("^Q quits", timeout=3)

    async def close(self) -> None:
        """Stop what runs, end the worker, save the state. Call it once the app has ended."""
        await self.workbench.runs.close()
        await self._link.close()
        if self.theme != self._first_theme:
            self._state.theme = self.theme
        self._state.target = self.workbench.session.target
        self._state.panel = self.workbench.panel_mode or ""
        try:
            self._state.save(self._start.paths.state)
        except OSError as error:
            log.warning("state not saved: %s", error)

    def _load_themes(self) -> None:
        themes, problems = theming.load_themes(self._start.paths.config.parent / "themes")
        for theme in themes:
            self.register_theme(theme)
        self._notices += [str(problem) for problem in problems]
        wanted = self._start.settings.theme or self._state.theme or DEFAULT_THEME
        if wanted in self.available_themes:
            self.theme = wanted
            return
        names = ", ".join(theme.name for theme in themes)
        self._notices.append(f"there is no theme {wanted!r}; the shipped ones are {names}")
        self.theme = DEFAULT_THEME if DEFAULT_THEME in self.available_themes else "textual-dark"

    def _fatal_error(self) -> None:
        """Textual's own prints a traceback over the terminal; ours goes to the log."""
        log.critical("the workbench failed", exc_info=True)
        error = sys.exc_info()[1]
        self.failure = f"{type(error).__name__}: {error}"
        self._close_messages_no_wait()
