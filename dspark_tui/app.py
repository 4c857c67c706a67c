"""The workbench as a Textual app: what is remembered, and the engines' lifetime."""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
from typing import Any, ClassVar

from msgspec import Struct
from textual.message import Message

from dspark_tui import textual_private
from dspark_tui.actions import Context
from dspark_tui.appearance import glyphs
from dspark_tui.clipboard import Clipboard
from dspark_tui.config import Settings
from dspark_tui.conversation.session import Target
from dspark_tui.engines.engines import Engines
from dspark_tui.paths import Paths
from dspark_tui.screens.keeping import SessionChosen
from dspark_tui.screens.workbench import Workbench
from dspark_tui.state import UiState
from dspark_tui.storage.workspaces import Choice, Opened, Workspaces
from dspark_tui.text.wrap import cut
from dspark_tui.themed import ThemedApp
from dspark_tui.widgets.batch_panel import Mode

log = logging.getLogger(__name__)

GC_THRESHOLDS = (1_000, 5, 100)
"""While text streams: short pauses often, where larger ones would be seen as stutter."""

NAME_CELLS = 30
"""Of a session's name, in a line that says more than that."""


class Start(Struct, frozen=True):
    """How to begin. notices: lines to show once. prompt: broadcast as the first one, if not ""."""

    settings: Settings
    paths: Paths
    notices: tuple[str, ...] = ()
    prompt: str = ""


class DsparkApp(ThemedApp):
    """The workbench on its engines."""

    CSS_PATH: ClassVar = ["styles/workbench.tcss"]
    SUSPENDED_SCREEN_CLASS = "-covered"
    COMMAND_PALETTE_BINDING = "f12"  # the table of actions has our own keys for it

    def __init__(
        self, start: Start, engines: Engines, workspaces: Workspaces, opened: Opened | None = None
    ) -> None:
        """opened: the session to show; None: a new one."""
        settings, self._state = start.settings, UiState.load(start.paths.state)
        super().__init__(start.paths, settings.theme or self._state.theme, settings.ascii)
        self.help_keys = settings.keys.keys_of("help")
        self._start = start
        self._engines = engines
        self._workspaces = workspaces
        self.workbench = self._workbench_for(opened or self._new_session())
        self._first_theme = self.theme
        spare = start.paths.state.parent / "copied.txt"
        self._clipboard_routes = Clipboard(super().copy_to_clipboard, spare)

    def _new_session(self) -> Opened:
        saved = self._state.target
        target = Target(saved) if saved in list(Target) else Target.ALL
        return self._workspaces.begin(self._start.settings.panes, target)

    def _why_new(self) -> str:
        """In words: the session that would have been opened is in another window."""
        keys = self.workbench.keymap
        name = cut(" ".join(self._workspaces.elsewhere.split()), NAME_CELLS).rstrip()
        leave, others = keys.name("leave", Context.COMPOSER), keys.name("sessions", Context.PANES)
        why = f'"{name}" is open in another window: this session is new.'
        return f"{why} {leave}, {others} lists all"

    def _workbench_for(self, opened: Opened) -> Workbench:
        settings = self._start.settings
        panel = settings.panel if settings.panel != "auto" else self._state.panel
        return Workbench(
            opened,
            self._workspaces,
            self._engines,
            glyphs.ASCII if settings.ascii else glyphs.DEFAULT,
            Mode(panel) if panel else None,
            settings.keys,
            settings.paste_collapse_over,
        )

    @property
    def clipboard(self) -> str:
        """What was copied last, by whichever route."""
        return self._clipboard_routes.text

    def copy_to_clipboard(self, text: str) -> None:
        """Copy by the surest route, also for Textual's own fields, and say which it was."""

        async def copy() -> None:
            self.notify(await self._clipboard_routes.copy(text), timeout=5, markup=False)

        self.run_worker(copy(), group="copy", exclusive=True, exit_on_error=False)

    def get_default_screen(self) -> Workbench:
        return self.workbench

    def on_mount(self) -> None:
        textual_private.allow_switch(self.workbench)
        self.call_after_refresh(self._painted)

    async def _painted(self) -> None:
        """The first frame is on screen: now the slow things may begin."""
        notices = [*self._start.notices, self._workspaces.problem]
        if trouble := "\n".join(filter(None, notices)):
            self.notify(trouble, severity="warning", timeout=12, markup=False)
        if self._workspaces.elsewhere:
            self.notify(self._why_new(), timeout=12, markup=False)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        if self._start.prompt:
            self.workbench.session.target = Target.ALL
            self.workbench.send(self._start.prompt)
        self._engines.start()

    def exit(self, *args: Any, **options: Any) -> None:
        if self.workbench.is_mounted and self.return_code is None:  # the first time it is asked
            self.workbench.keep()
        super().exit(*args, **options)

    def post_message(self, message: Message) -> bool:
        if isinstance(message, SessionChosen):
            self._rising += 1  # what is typed from now on is for that session
        return super().post_message(message)

    async def on_session_chosen(self, message: SessionChosen) -> None:
        await self._show_session(message.choice)
        self._rising -= 1

    async def _show_session(self, choice: Choice) -> None:
        """Show another session in a workbench of its own; the engines stay."""
        old = self.workbench
        if choice.workspace is not None and self._workspaces.in_use(choice.workspace):
            self.notify("that session is open in another window", severity="warning")
            return
        await old.finish()
        old.keep()
        if opened := await self._open(choice.workspace):
            self.workbench = self._workbench_for(opened)
            self.workbench.trial = old.trial  # it goes on, whatever session is shown
            await self.switch_screen(self.workbench)
            self.workbench.show_turn(choice)

    async def _open(self, workspace: int | None) -> Opened | None:
        """A new session, or the one asked for; None once it is said why it can't be had."""
        if workspace is None:
            return self._new_session()
        try:
            opened = await asyncio.to_thread(self._workspaces.open, workspace)
        except sqlite3.Error as error:
            self.notify(f"that session can't be read: {error}", severity="error")
            return None
        if opened is None:
            self.notify("that session is gone", severity="warning")
        return opened

    async def action_quit(self) -> None:
        """ctrl+q from anywhere."""
        self.workbench.action_quit()

    def action_command_palette(self) -> None:
        """The actions are the workbench's: over another screen there are none."""
        if self.screen is self.workbench:
            from dspark_tui.screens.palette import ActionCommands, Palette

            self.push_screen(Palette(ActionCommands, "Search for actions"))

    def action_help_quit(self) -> None:
        self.notify(f"{self.workbench.keymap.name('quit', Context.COMPOSER)} quits", timeout=3)

    async def close(self) -> None:
        """Stop what runs, end the worker, save the state. Call it once the app has ended."""
        await self.workbench.finish()
        self.workbench.opened.journal.note((), self.workbench.opened.view)
        await self._engines.close()
        self._workspaces.close()
        if self.theme != self._first_theme:
            self._state.theme = self.theme
        self._state.target = self.workbench.session.target
        self._state.panel = self.workbench.panel_mode or ""
        try:
            self._state.save(self._start.paths.state)
        except OSError as error:
            log.warning("state not saved: %s", error)
