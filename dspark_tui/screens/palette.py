"""The command palette's entries: every action of the table that makes sense by name."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from dspark_tui.actions import Action, Context, keys_in_words
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


def _help(action: Action) -> str:
    keys = (keys_in_words(action, Context.PANES), keys_in_words(action, Context.COMPOSER))
    shown = next((key for key in keys if key), "")
    return f"{action.help}   {shown}" if shown else action.help
