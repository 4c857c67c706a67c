"""A dialog that is typed into from its first moment."""

from __future__ import annotations

import time
from typing import TypeVar

from textual import events

from dspark_tui.screens.dialog import Dialog
from dspark_tui.widgets.keys import type_again

Result = TypeVar("Result")


class Form(Dialog[Result]):
    """Keys that were typed before its first field could take them go there all the same."""

    _focused_at = 0.0

    def begin_in(self, field: str) -> None:
        """Put the caret into the field of that selector. Call it when mounted."""
        self.set_focus(self.query_one(field))
        self._focused_at = time.monotonic()

    async def on_key(self, event: events.Key) -> None:
        if event.time < self._focused_at:
            type_again(self, event)
