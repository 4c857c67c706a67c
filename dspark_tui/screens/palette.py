"""The command palette's entries: every action that makes sense by name, and the themes."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, ClassVar

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from dspark_tui.actions import Action, Context, keys_in_words
from dspark_tui.appearance.roles import FAINT
from dspark_tui.keymap import Keymap

LABEL_WIDTH, KEYS_WIDTH = 28, 13


class Palette(CommandPalette):
    """Textual's, with a line for each entry."""

    CSS_PATH: ClassVar = ["../styles/palette.tcss"]

    def __init__(self, commands: type[Provider], placeholder: str) -> None:
        super().__init__(providers=[commands], placeholder=placeholder)


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
