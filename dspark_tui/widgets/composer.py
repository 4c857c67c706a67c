"""Where prompts are typed. Its border says where Enter will send them, and how long they are."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual import events
from textual.content import Content
from textual.widgets.text_area import Edit, EditResult, Location
from textual.worker import Worker

from dspark_tui.actions import Context
from dspark_tui.conversation.completion import (
    AttachError,
    Completion,
    complete_command,
    complete_path,
    read_attachment,
)
from dspark_tui.conversation.history import Recall
from dspark_tui.conversation.pastes import Draft, Pastes
from dspark_tui.conversation.session import Session, Target
from dspark_tui.engines.token_count import TokenCount
from dspark_tui.keymap import Keymap
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.chip_box import ChipBox
from dspark_tui.widgets.keys import act_on_key

QUIET = 0.3
"""Seconds without a change after which the tokens are counted."""

PACE = 3
"""A pause between counts is this many times as long as a count takes: huge texts take long."""

TokenCounter = Callable[[str], Awaitable[TokenCount | None]]


class Composer(ChipBox):
    """Sends on Enter and recalls earlier prompts with Up on its first line."""

    def __init__(
        self, session: Session, keymap: Keymap, collapse_over: int, count: TokenCounter
    ) -> None:
        """collapse_over: see Pastes. count: gives None where nobody can tell."""
        super().__init__(
            Pastes(collapse_over),
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Ask something",
        )
        self.cursor_blink = False  # blinking would write to the terminal for ever
        self._session = session
        self._calls = keymap.calls(Context.COMPOSER)
        self._commands = keymap.commands
        self._recall = Recall(session)
        self._count = count
        self._took = 0.0
        self._length: TokenCount | None = None
        self._counting: Worker[None] | None = None
        self._choices = ""

    def on_mount(self) -> None:
        # the terminal's own cursor is where an input method shows its box: it has to move with us
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self._place_cursor())

    def describe(self) -> None:
        """Redo the border's upper side: the target in words."""
        session = self._session
        numbers = " ".join(pane.alias or str(pane.number) for pane in session.recipients())
        words = {
            Target.THIS: f"to {session.active.title} only",
            Target.ALL: f"to {numbers}  broadcast",
            Target.CHOSEN: f"to {numbers}  chosen",
        }[session.target]
        if session.editing is not None:
            words = f"edits {session.editing.title}'s last prompt"
        self.border_title = Content.styled(words, "bold")

    def take(self) -> str:
        """The prompt; the composer is empty afterwards."""
        prompt = self.prompt
        self.restore(Draft())
        self._recall.forget()
        return prompt

    def recall(self, at: int) -> None:
        """Show the prompt at that place of the history; the draft is below the newest."""
        self._show(self._recall.jump(at, self.draft))

    async def _on_key(self, event: events.Key) -> None:
        if self._choices:
            self._choices = ""
            self._describe_text()
        if event.key == "tab" and self.has_focus and await self._complete():
            event.stop()
            event.prevent_default()
        else:
            await act_on_key(self, event, self._calls)  # else for the handlers of the classes above

    def edit(self, edit: Edit) -> EditResult:
        self._recall.forget()
        return super().edit(edit)

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        else:
            self._show(self._recall.step(-1, self.draft))

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self.navigator.is_last_wrapped_line(self.cursor_location):
            super().action_cursor_down(select)
        else:
            self._show(self._recall.step(+1, self.draft))

    def _show(self, found: str | Draft | None) -> None:
        if isinstance(found, Draft):
            self.restore(found)
        elif found is not None:
            self.put(found)

    def _place_cursor(self) -> None:
        if self.has_focus:
            self.app.cursor_position = self.cursor_screen_offset

    # ---- completion

    async def _complete(self) -> bool:
        """Complete the word before the caret; False if there is nothing to complete."""
        row, column = caret = self.cursor_location
        found = re.search(r"\S*$", self.document.get_line(row)[:column])
        word = found[0] if found else ""
        completion: Completion | None = None
        if word.startswith("/") and word == self.text:
            completion = complete_command(word, self._commands)
        elif word.startswith("@"):
            completion = await asyncio.to_thread(complete_path, word)
        if completion is None or completion == Completion(word):
            return False
        start = (row, column - len(word))
        if completion.file is None:
            self.replace(completion.text, start, caret, maintain_selection_offset=False)
            self._choices = drawable("  ".join(completion.choices))
            self._describe_text()
        else:
            await self._attach_file(completion.file, start, caret)
        return True

    async def _attach_file(self, file: Path, start: Location, end: Location) -> None:
        try:
            text = await asyncio.to_thread(read_attachment, file)
        except AttachError as error:
            self.notify(str(error), timeout=5, markup=False)
        else:
            self.insert_chip(text, file.name, start, end)

    # ---- length

    def on_text_area_changed(self) -> None:
        self.count_again()

    def count_again(self) -> None:
        """The text is another, or who counts it."""
        if self.text:
            self._counting = self.run_worker(
                self._count_soon, group="count", exclusive=True, exit_on_error=False
            )
        else:
            if self._counting is not None:
                self._counting.cancel()
            self._length = None
            self._describe_text()

    async def _count_soon(self) -> None:
        """Newer text cancels this, wherever it is."""
        await asyncio.sleep(max(QUIET, PACE * self._took))
        started = time.monotonic()
        try:
            self._length = await self._count(self.prompt)
        finally:
            self._took = time.monotonic() - started
        self._describe_text()

    def _describe_text(self) -> None:
        """Redo the border's lower side: what the word may become, else how long the text is."""
        if self._choices:
            self.border_subtitle = Content(self._choices)
        elif self._length is not None:
            style = "$text-error" if self._length.over else ""
            self.border_subtitle = Content.styled(str(self._length), style)
        else:
            self.border_subtitle = ""
