"""The command palette's entries: every action that makes sense by name, and the themes."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from dspark_tui.actions import Action, Context, keys_in_words
from dspark_tui.appearance.roles import FAINT
from dspark_tui.keymap import Keymap


class ActionCommands(Provider):
    """For a screen that has a `keymap`."""

    async def discover(self) -> Hits:
        for action in self._actions():
            yield DiscoveryHit(action.label, self._run(action), help=_help(action))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._actions():
            score = matcher.match(f"{action.label} {action.help}")
            if score > 0:
                label = matcher.highlight(action.label)
                yield Hit(score, label, self._run(action), text=action.label, help=_help(action))

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


def _help(action: Action) -> str:
    keys = (keys_in_words(action, Context.PANES), keys_in_words(action, Context.COMPOSER))
    shown = next((key for key in keys if key), "")
    return f"{action.help}   {shown}" if shown else action.help
