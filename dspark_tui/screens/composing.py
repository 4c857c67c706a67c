"""Actions on what is being typed: sending it, finding earlier prompts, the editor, pastes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dspark_tui.actions import Context
from dspark_tui.comparison.blind import engines_hidden
from dspark_tui.conversation.completion import UnknownCommandError, command
from dspark_tui.engines.token_count import TokenCount
from dspark_tui.screens.desk import Desk

if TYPE_CHECKING:
    from dspark_tui.engines.link import EngineLink


class Composing(Desk):
    """Everything about the text in the composer."""

    _counts: tuple[EngineLink | None, bool] | None = None

    def send(self, prompt: str) -> None:
        """Send to wherever the target says."""
        raise NotImplementedError

    async def count_tokens(self, text: str) -> TokenCount | None:
        """By the tokenizer of the engine; None while there is none to ask."""
        if engines_hidden(self.session) or not self.link.ready.is_set():
            return None
        return await self.link.client.count_tokens(text)

    def recount(self) -> None:
        """Count the tokens again where it is another engine that can, or none can any more."""
        counter = None if engines_hidden(self.session) else self.link
        counts = (counter, counter is not None and counter.ready.is_set())
        if counts != self._counts:
            self._counts = counts
            self.composer.count_again()

    async def action_send(self) -> None:
        """A text that is "/" and an action's name runs the action instead."""
        if not self.composer.text.strip():
            return
        try:
            action = command(self.composer.text, self.keymap.commands)
        except UnknownCommandError as error:
            self.say(str(error))
            return
        if action is None:
            self.send(self.composer.take())
        else:
            self.composer.take()
            await self.run_action(f"screen.{action}")

    def action_newline(self) -> None:
        self.composer.insert("\n")

    def action_compose(self) -> None:
        self.set_focus(self.composer)

    def action_expand_paste(self) -> None:
        paste = self.composer.expand_chip()
        if paste is None:
            self.say("no paste to show")
        elif not paste.editable:
            from dspark_tui.screens.paste_view import PasteView

            self.app.push_screen(PasteView(paste, self.glyphs, self.key("edit", Context.COMPOSER)))

    def action_search_prompts(self) -> None:
        from dspark_tui.screens.prompts import PromptList

        def show(at: int | None) -> None:
            if at is not None:
                self.set_focus(self.composer)
                self.composer.recall(at)

        if self.session.history:
            self.app.push_screen(PromptList(self.session.history), show)
        else:
            self.say("no earlier prompts yet")

    def action_edit(self) -> None:
        """Off the keys' way: the editor stays as long as it likes."""
        self.run_worker(self._edit(), group="edit", exclusive=True, exit_on_error=False)

    async def _edit(self) -> None:
        from dspark_tui.editor import edited
        from dspark_tui.handover import HandoverError

        try:
            text = await edited(self.app, self.composer.prompt)
        except HandoverError as error:
            self.say(str(error))
        else:
            if text != self.composer.prompt:
                self.composer.put(text)
        self.set_focus(self.composer)
