"""Leaving the program: what runs and would be lost is asked about once, on whatever screen."""

from __future__ import annotations

from collections.abc import Iterator

from dspark_tui.screens.experimenting import Experimenting

QUESTION = "quit-question"
"""The one question's id. Whoever asks to quit while it stands means it."""


class Quitting(Experimenting):
    """Every way out but a signal comes through `action_quit`."""

    def action_quit(self) -> None:
        from dspark_tui.screens.confirm import Confirm

        under_way = ", and ".join(self._under_way())
        if not under_way or self.app.screen.id == QUESTION:
            self.app.exit()
            return

        def go(confirmed: bool | None) -> None:
            if confirmed:
                self.app.exit()

        question = f"{under_way[0].upper()}{under_way[1:]}. Quit all the same?"
        self.app.push_screen(Confirm(question, "quit", id=QUESTION), go)

    def action_quit_if_empty(self) -> None:
        if self.composer.text:
            self.composer.action_delete_right()
        else:
            self.action_quit()

    async def finish(self) -> None:
        """Stop all that belongs to this session, and wait until its connections are closed."""
        await self.runs.close()
        if self.repeats is not None:
            await self.repeats.close()

    def _under_way(self) -> Iterator[str]:
        """What leaving now would break off."""
        if count := len(self.runs):
            yield "one pane is answering" if count == 1 else f"{count} panes are answering"
        if queued := self.session.queued:
            yield "a prompt is queued" if len(queued) == 1 else f"{len(queued)} prompts are queued"
        if self.repeats is not None and self.repeats.running:
            yield "a prompt is being repeated"
        if self.experiment_runs:
            yield "an experiment is running"
