"""Finding words in the active pane."""

from __future__ import annotations

from dspark_tui.screens.reading import Reading


class Finding(Reading):
    """The words stay for going to other places that have them."""

    _wanted = ""

    def action_find(self) -> None:
        from dspark_tui.screens.ask import Ask

        async def problem(words: str) -> str:
            return "no match" if words and not self.transcript.has(words) else ""

        def find(words: str | None) -> None:
            if words:
                self._wanted = words
                self.set_focus(self.grid.active)  # where the keys act that go on from there
                self._go(-1)  # what was said last is nearest

        self.app.push_screen(Ask("find in this pane", self._wanted, attempt=problem), find)

    def action_find_next(self) -> None:
        self._go(+1)

    def action_find_previous(self) -> None:
        self._go(-1)

    def _go(self, step: int) -> None:
        if not self._wanted:
            self.action_find()
        elif not self.grid.active.find(self._wanted, step):
            self.say(f"no match in this pane: {self._wanted}")
