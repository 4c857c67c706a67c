"""Where prompts are typed. Its border always says where Enter will send them."""

from __future__ import annotations

from textual import events
from textual.content import Content

from dspark_tui.actions import Context
from dspark_tui.foreign import harmless
from dspark_tui.keymap import Keymap
from dspark_tui.session import Session, Target
from dspark_tui.widgets.fields import TextBox
from dspark_tui.widgets.keys import act_on_key


class Composer(TextBox):
    """Sends on Enter and recalls earlier prompts with Up on its first line."""

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__(
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Ask something",
        )
        self.cursor_blink = False  # blinking would write to the terminal for ever
        self._session = session
        self._calls = keymap.calls(Context.COMPOSER)
        self._recalled: int | None = None
        self._draft = ""

    def on_mount(self) -> None:
        # the terminal's own cursor is where an input method shows its box: it has to move with us
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self._place_cursor())

    def describe(self) -> None:
        """Redo the border: the target in words."""
        session = self._session
        numbers = " ".join(pane.alias or str(pane.number) for pane in session.recipients())
        words = {
            Target.THIS: f"to {session.active.title} only",
            Target.ALL: f"to {numbers}  broadcast",
            Target.CHOSEN: f"to {numbers}  chosen",
        }[session.target]
        self.border_title = Content.assemble(" ", (words, "bold"), " ")

    def take(self) -> str:
        """The text; the composer is empty afterwards."""
        text = self.text
        self.clear()
        self._recalled = None
        return text

    def put(self, text: str) -> None:
        """Replace the text and move to its end."""
        self.load_text(harmless(text))
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if not await act_on_key(self, event, self._calls) and event.is_printable:
            self._recalled = None  # the rest is for the handlers of the classes above

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        else:
            self._recall(-1)

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self.navigator.is_last_wrapped_line(self.cursor_location):
            super().action_cursor_down(select)
        else:
            self._recall(+1)

    def _recall(self, step: int) -> None:
        """Go through earlier prompts; past the newest one the draft comes back."""
        history = self._session.history
        if self._recalled is None:
            if step > 0 or not history:
                return
            self._draft, self._recalled = self.text, len(history)
        self._recalled = max(0, self._recalled + step)
        if self._recalled >= len(history):
            self._recalled = None
            self.put(self._draft)
        else:
            self.put(history[self._recalled])

    def _place_cursor(self) -> None:
        if self.has_focus:
            self.app.cursor_position = self.cursor_screen_offset
