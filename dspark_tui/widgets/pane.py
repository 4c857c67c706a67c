"""One pane: a conversation's transcript in a border that says what it is and what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from dspark_tui.actions import Context
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.ending import Ending
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import Conversation, Turn
from dspark_tui.conversation.turns import Origin
from dspark_tui.keymap import Keymap
from dspark_tui.text.foreign import drawable
from dspark_tui.textual_private import retitle_bottom
from dspark_tui.widgets.findable import FindableTranscript
from dspark_tui.widgets.keys import act_on_key

if TYPE_CHECKING:
    from dspark_tui.conversation.run import Run

INVITATIONS = {
    Context.COMPOSER: "Type below, {send} sends.",
    Context.PANES: "Letters are commands; {compose} to type.",
}
WELCOME = """

Every pane is a chat of its own;
all of them share one batch.

{params}  system prompt, temperature
{target}  this pane only, or all
{help}  all keys"""

BORDER_ENDS = 6
"""Cells of a border beside its title."""


class Pane(Vertical, can_focus=True):
    """Shows a Conversation as its runs begin, advance and end. context: where keys go now.

    How the latest answer ended and its figures stand in the border, where they take no line from
    the text; those of earlier ones stand below them.
    """

    context: reactive[Context] = reactive(Context.COMPOSER)

    class Activated(Message):
        """The pane took the focus."""

        def __init__(self, conversation: Conversation) -> None:
            super().__init__()
            self.conversation = conversation

    def __init__(self, conversation: Conversation, glyphs: Glyphs, keymap: Keymap) -> None:
        super().__init__(id=f"pane-{conversation.number}")
        self.conversation = conversation
        self.transcript = FindableTranscript(
            glyphs=glyphs,
            follow_key=keymap.name("follow", Context.PANES),
            thought_key=keymap.name("thoughts", Context.PANES),
        )
        self.transcript.can_focus = False
        self._glyphs = glyphs
        self._keymap = keymap
        self._calls = keymap.calls(Context.PANES)
        self._state = self._failure = self._found = ""

    def compose(self) -> ComposeResult:
        yield self.transcript

    def render(self) -> Content:
        """What is behind the transcript, which covers it once something is said."""
        return Content(self._welcome())

    def on_mount(self) -> None:
        self.show()
        self.resume()

    def _welcome(self) -> str:
        ids = ("send", "compose", "params", "target", "help")
        keys = {id: self._keymap.name(id, self.context) for id in ids}
        return (INVITATIONS[self.context] + WELCOME).format(**keys)

    async def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            self.transcript.end_find()
        await act_on_key(self, event, self._calls)

    def on_resize(self) -> None:
        self._fit_state()

    def on_focus(self) -> None:
        self.post_message(self.Activated(self.conversation))

    def describe(self, base: PaneParams, *, target: bool) -> None:
        """Redo the title: number, name, marks, what differs from `base`. target: Enter sends here.

        A narrow pane's title is cut at the end: what may be long comes last.
        """
        conversation = self.conversation
        mark = self._glyphs.prompt if target else " "
        named = not conversation.alias  # nothing else may tell who it is
        differences = conversation.params.differences_in_title(base) if named else ""
        self.border_title = Content.assemble(
            (mark, "$role-pane-target"),
            (f" {conversation.title}", "bold"),
            ("  marked", "$role-pane-target") if conversation.marked else "",
            ("  voted", "$role-added") if conversation.voted and named else "",
            f"  {differences}" if differences else "",
        )
        self.set_class(target, "-target")

    def show(self) -> None:
        """Draw the conversation anew: it was stored, or another of its branches is shown now."""
        turns = self.conversation.turns
        self.set_class(bool(turns), "-spoken")
        self._show_whole(turns[:-1])
        if turns:
            last = turns[-1]
            self._show_prompt(last)
            self._conclude(last, again=last.ending is Ending.INTERRUPTED)

    def resume(self) -> None:
        """Go to where the reader left off, if they had left the end."""
        if self.conversation.left_off is not None:
            self.transcript.resume(self.conversation.left_off)

    def begin(self, run: Run) -> None:
        """Show a prompt and open its answer, or open the one that is continued."""
        self.add_class("-spoken", "-busy")
        self.remove_class("-troubled")
        turn, earlier = run.turn, self.conversation.turns[:-1]
        if turn.origin is not Origin.SENT or run.continues:
            self._show_whole(earlier)
        elif earlier:
            self._sign(earlier[-1])
        self._show_prompt(turn)
        self.transcript.follow()

    def _show_whole(self, turns: Iterable[Turn]) -> None:
        """Replace everything with turns that others follow."""
        self.transcript.clear()
        for turn in turns:
            self._show_prompt(turn)
            self.transcript.end_answer()
            self._sign(turn)

    def _show_prompt(self, turn: Turn) -> None:
        """The prompt, and the answer as far as it is there, open."""
        self.transcript.add_user(turn.prompt)
        if marker := self._marker(turn):
            self.transcript.note(marker)
        self.transcript.begin_answer()
        if turn.answer:
            self.transcript.append(turn.answer)

    def _marker(self, turn: Turn) -> str:
        """Its place among its siblings and what it changed, e.g. "‹ 2/3 ›  new seed"."""
        nth, count = self.conversation.place(turn)
        place = f"{self._glyphs.earlier} {nth}/{count} {self._glyphs.later}" if count > 1 else ""
        return "  ".join(part for part in (place, turn.origin) if part)

    def _sign(self, turn: Turn) -> None:
        """Say below the answer how it ended, instead of what could be done about it."""
        self.transcript.sign(*_ending(turn).below(_summary(turn), self._glyphs))
        if turn.problem:
            self.transcript.note(turn.problem)

    def advance(self, run: Run) -> None:
        """Take over the text the run brought since the last tick."""
        if text := run.drain():
            self.transcript.append(text)

    def show_progress(self, run: Run) -> None:
        """Say in the border where the run is."""
        self._show_state(f"{self._behind()}{self._glyphs.running} {run.progress()}")

    def end(self, run: Run) -> None:
        """Close the answer and say how it ended."""
        self.remove_class("-busy")
        self._conclude(run.turn, again=not run.refused)

    def _conclude(self, turn: Turn, *, again: bool) -> None:
        """Close the last answer and say what can be done about its end.

        again: what went wrong may go well another time.
        """
        self.transcript.end_answer()
        ending = _ending(turn)
        self.set_class(ending.troubled, "-troubled")
        if turn.problem:
            self.transcript.note(turn.problem)
        if advice := self._advice(turn, ending, again=again):
            self.transcript.note(advice)
        self._show_state("  ".join(filter(None, (ending.marked(self._glyphs), _summary(turn)))))

    def _advice(self, turn: Turn, ending: Ending, *, again: bool) -> str:
        names = self._keymap.name
        leave, go_on = names("leave", Context.COMPOSER), names("go_on", Context.PANES)
        if ending is Ending.LENGTH:
            params = names("params", Context.COMPOSER)
            return f"{params} raises the limit; {leave}, {go_on} goes on"
        if not ending.troubled:
            return ""
        if not again:
            return f"{leave}, {names('edit_prompt', Context.PANES)} edits the prompt"
        advice = f"{leave}, {names('regenerate', Context.PANES)} sends it again"
        return f"{advice}, {go_on} goes on" if turn.can_go_on else advice

    def keep_scroll(self) -> Callable[[], None]:
        """Note which line is on top; the returned function brings it back."""
        transcript, place = self.transcript, self.transcript.left_off
        return transcript.follow if place is None else lambda: transcript.resume(place)

    def _behind(self) -> str:
        """The prompts sent while this one runs; first, since a border cuts off its end."""
        pending = self.conversation.pending
        if not pending:
            return ""
        more = f" and {len(pending) - 1} more" if pending[1:] else ""
        typing = self.context is Context.COMPOSER
        stop = self._keymap.name("step_back" if typing else "stop", self.context)
        first = Content(" ".join(pending[0].split())).truncate(16, ellipsis=True)
        return f"queued: {first.plain}{more} ({stop} takes back)   "

    def _show_state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._fit_state()

    def find(self, words: str, step: int) -> bool:
        """Go to the next place with the words, or with step -1 to the one before; False without."""
        found = self.transcript.find(words, step)
        if found is not None:
            keys = self._keymap
            on, back = (keys.name(id, Context.PANES) for id in ("find_next", "find_previous"))
            place = f"{found.number:,} of {found.count:,}"
            self._found = f"{place}  {words}  {on} next  {back} back  Esc ends"
            self._fit_state()
        return found is not None

    def on_findable_transcript_find_ended(self) -> None:
        self._found = ""
        self._fit_state()

    def show_failure(self, failure: str) -> None:
        """Say in the border, instead of all else, why the engine can't be had; "" if it can."""
        if failure != self._failure:
            self._failure = failure
            self._fit_state()

    def _fit_state(self) -> None:
        """Leave out whole figures, the last ones first, where the border has no room."""
        state = f"{self._glyphs.failed} {self._failure}" if self._failure else self._state
        state = self._found or state
        words, room = drawable(state), self.outer_size.width - BORDER_ENDS
        while cell_len(words) > room and "  " in words:
            words = words.rpartition("  ")[0].rstrip()
        retitle_bottom(self, Content(words))


def _ending(turn: Turn) -> Ending:
    assert turn.ending is not None, "only an answer that is over has an end"
    return turn.ending


def _summary(turn: Turn) -> str:
    """The figures of its latest request that brought any text."""
    return next(filter(None, (request.summary() for request in reversed(turn.requests))), "")
