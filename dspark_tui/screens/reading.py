"""Actions on the text of the active pane: scrolling through it, paging it, copying from it."""

from __future__ import annotations

from dspark_tui.screens.desk import Desk
from dspark_tui.text.code_blocks import CodeBlock, code_blocks
from dspark_tui.widgets.findable import FindableTranscript


class Reading(Desk):
    """Scrolling, paging and copying, by keys."""

    @property
    def transcript(self) -> FindableTranscript:
        """The one being read."""
        return self.grid.active.transcript

    def action_scroll_up(self) -> None:
        self.transcript.scroll_up(animate=False)

    def action_scroll_down(self) -> None:
        self.transcript.scroll_down(animate=False)

    def action_scroll_back(self) -> None:
        transcript = self.transcript
        transcript.scroll_relative(y=-max(1, transcript.size.height // 2), animate=False)

    def action_scroll_on(self) -> None:
        transcript = self.transcript
        transcript.scroll_relative(y=max(1, transcript.size.height // 2), animate=False)

    def action_scroll_first(self) -> None:
        self.transcript.go_to_start()

    def action_follow(self) -> None:
        self.transcript.follow()

    def action_thoughts(self) -> None:
        self.transcript.toggle_thoughts()

    def action_pager(self) -> None:
        """Off the keys' way: the pager stays as long as it likes."""
        if text := self.transcript.source_text():
            self.run_worker(self._page(text), group="pager", exclusive=True, exit_on_error=False)
        else:
            self.say("nothing to read yet")

    async def _page(self, text: str) -> None:
        from dspark_tui.handover import HandoverError
        from dspark_tui.pager import paged

        try:
            await paged(self.app, text)
        except HandoverError as error:
            self.say(str(error))

    def action_copy_answer(self) -> None:
        self._copy(self.transcript.last_answer())

    def action_copy_code(self) -> None:
        blocks = code_blocks(self.transcript.last_answer())
        if len(blocks) == 1:
            self._copy(blocks[0].text)
        elif blocks:
            from dspark_tui.screens.pick_code import PickCode

            self.app.push_screen(PickCode(blocks), self._copy_block)
        else:
            self.say("no code in the latest answer")

    def action_copy_pane(self) -> None:
        self._copy(self.transcript.source_text())

    def _copy_block(self, block: CodeBlock | None) -> None:
        if block is not None:
            self._copy(block.text)

    def _copy(self, text: str) -> None:
        if text:
            self.app.copy_to_clipboard(text)
        else:
            self.say("nothing to copy yet")
