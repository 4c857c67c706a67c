"""Going back through earlier prompts, one by one or by what is in them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dspark_tui.conversation.pastes import Draft
from dspark_tui.conversation.session import Session

SEARCHED = 10_000
"""Characters of a prompt that a search looks at."""


class Recall:
    """A place in the history; below its newest prompt is the draft that was being written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._at: int | None = None
        self._draft = Draft()

    def forget(self) -> None:
        """What stands in the composer is a draft of its own from now on.

        The one that was being written joins the history, so that it isn't lost.
        """
        if self._at is not None and self._draft.text.strip():
            self._session.remember(self._draft.prompt)
        self._at = None

    def step(self, by: int, draft: Draft) -> str | Draft | None:
        """What is to stand in the composer next; None where there is nothing further.

        by: -1 for an older one, +1 for a newer one. draft: what stands there now.
        """
        at = len(self._session.history) if self._at is None else self._at
        return self.jump(max(0, at + by), draft)

    def jump(self, at: int, draft: Draft) -> str | Draft | None:
        """The prompt at that place of the history, and the draft after the last one."""
        prompts = self._session.history
        if self._at is None:
            if at >= len(prompts):
                return None
            self._draft = draft
        self._at = at if at < len(prompts) else None
        return self._draft if self._at is None else prompts[at]


class PromptSearch:
    """Finds prompts by words in them, newest first."""

    def __init__(self, prompts: Sequence[str]) -> None:
        self._texts = [prompt[:SEARCHED].casefold() for prompt in prompts]

    def places(self, query: str) -> list[int]:
        """Places of the prompts that have every word of the query somewhere."""
        words = query.casefold().split()
        newest_first = range(len(self._texts) - 1, -1, -1)
        return [at for at in newest_first if all(word in self._texts[at] for word in words)]
