"""The command palette's entries: every action that makes sense by name, and the themes."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from textual import events, on
from textual.command import (
    Command,
    CommandList,
    CommandPalette,
    DiscoveryHit,
    Hit,
    Hits,
    Provider,
)
from textual.content import Content
from textual.worker import WorkerError

from dspark_tui.actions import Action, Context, keys_in_words
from dspark_tui.appearance.roles import FAINT
from dspark_tui.keymap import Keymap
from dspark_tui.screens.dialog import KeyHelp

LABEL_WIDTH, KEYS_WIDTH = 28, 13


class Palette(CommandPalette, KeyHelp[None]):
    """Textual's, with a line for each entry, and for people who type ahead of what is shown."""

    CSS_PATH: ClassVar = ["../styles/palette.tcss"]
    KEY_HELP: ClassVar = (
        ("Enter", "do what the highlighted line says"),
        ("Up Down", "through the list"),
        ("PgUp PgDn", "a page up or down"),
        ("Ctrl+Home Ctrl+End", "to the first line or the last"),
        ("Esc", "leave all as it was"),
    )

    def __init__(self, commands: type[Provider], placeholder: str) -> None:
        super().__init__(providers=[commands], placeholder=placeholder)

    @on(events.Key)
    async def _act(self, event: events.Key) -> None:
        """A key that is no text is for the lines that the text before it leads to."""
        for worker in self.workers:
            if worker.node is self and not worker.is_cancelled:
                with suppress(WorkerError):
                    await worker.wait()
        if event.key == "enter":
            event.stop()
            self._take()

    def _take(self) -> None:
        """Have the screen below run the highlighted entry.

        Textual's app would, after the keys that were typed by then.
        """
        entry = self.query_one(CommandList).highlighted_option
        if self.is_active and isinstance(entry, Command):  # not a second time
            below = self.app.screen_stack[-2]
            self.app.delay_update()  # until what it leads to is there
            self.dismiss()
            below.call_later(entry.hit.command)


class ActionCommands(Provider):
    """For a screen that has a `keymap`. A line for each: label, keys, and what it does."""

    async def discover(self) -> Hits:
        for action in self._actions():
            line = _line(action, Content(action.label))
            yield DiscoveryHit(line, self._run(action), text=action.label)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._actions():
            by_help = matcher.match(f"{action.label} {action.help}")
            if (score := matcher.match(action.label) + by_help) > 0:  # its name comes first
                line = _line(action, matcher.highlight(action.label))
                yield Hit(score, line, self._run(action), text=action.label)

    def _actions(self) -> Iterator[Action]:
        keymap: Keymap = self.screen.keymap  # type: ignore[attr-defined]
        return (action for action in keymap.actions if action.palette)

    def _run(self, action: Action) -> partial[Coroutine[Any, Any, None]]:
        return partial(self.screen.run_action, f"screen.{action.id}")


class ThemeCommands(Provider):
    """All there are; the one in use says so."""

    async def discover(self) -> Hits:
        for name in sorted(self.app.available_themes):
            yield DiscoveryHit(self._shown(name, Content(name)), self._wear(name), text=name)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name in sorted(self.app.available_themes):
            if (score := matcher.match(name)) > 0:
                label = self._shown(name, matcher.highlight(name))
                yield Hit(score, label, self._wear(name), text=name)

    def _shown(self, name: str, label: Content) -> Content:
        used = name == self.app.theme
        return Content.assemble(label, ("   in use", FAINT)) if used else label

    def _wear(self, name: str) -> partial[None]:
        return partial(setattr, self.app, "theme", name)


def _line(action: Action, label: Content) -> Content:
    words = (keys_in_words(action, context) for context in (Context.PANES, Context.COMPOSER))
    keys = next(filter(None, words), "")
    return Content.assemble(
        label.stylize("bold"),
        " " * (LABEL_WIDTH - label.cell_length),
        keys.ljust(KEYS_WIDTH),
        (f" {action.help}", FAINT),
    )
