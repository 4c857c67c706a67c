"""Earlier prompts, newest first: typing narrows them down, Enter takes one up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from dspark_tui.appearance.roles import FAINT
from dspark_tui.conversation.history import PromptSearch
from dspark_tui.screens.finder import Finder, Query
from dspark_tui.text.foreign import drawable

SHOWN = 200
"""Characters of a prompt in the list."""


class PromptQuery(Query):
    KEYS: ClassVar = {**Query.KEYS, "ctrl+r": "move(+1)"}


class PromptList(Finder[int, int]):
    """Gives the prompt's place in the history."""

    SUBJECT = "earlier prompts"
    HINT = "type to search   Enter takes it   Esc leaves"
    PLACEHOLDER = "words in it"
    QUERY = PromptQuery
    KEY_HELP: ClassVar = (
        ("Enter", "the prompt takes the place of the text in the composer"),
        ("^R", "to the next one"),
        *Finder.KEY_HELP,
    )

    def __init__(self, prompts: Sequence[str]) -> None:
        """prompts: oldest first."""
        super().__init__()
        self._prompts = list(prompts)
        self._search = PromptSearch(prompts)

    def look_up(self, query: str) -> None:
        places = self._search.places(query)
        self.show(places, str(len(places)))

    def entry(self, found: int, width: int) -> Content:
        """Its first line with text in it, and how many more there are."""
        lines = [line.strip() for line in self._prompts[found].strip().split("\n")]
        more = f"  +{len(lines) - 1} lines" if len(lines) > 1 else ""
        first = Content(drawable(lines[0][:SHOWN])).truncate(width - len(more), ellipsis=True)
        return Content.assemble(first, (more, FAINT))

    def choose(self, found: int) -> None:
        self.dismiss(found)
