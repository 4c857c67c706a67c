"""The panes and what was said in them: plain state, no widgets, no I/O.

Widgets only show this; a store can save it whole or turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from dspark_tui.conversation.bookmark import Bookmark
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.pastes import Draft
from dspark_tui.conversation.reasoning import answer_of
from dspark_tui.conversation.turns import Origin, Turn, TurnStatus, new_id
from dspark_tui.conversation.votes import Vote
from dspark_tui.engines.chat_updates import Message

__all__ = ["Conversation", "Session", "Target", "Turn", "TurnStatus"]

MAX_PANES = 8
HISTORY_KEPT = 200


class Conversation(Struct, eq=False):
    """One pane. number: 1 to 8, its name for life. turns: the branch of the tree that is shown.
    starts: the first turn and its siblings. pending: prompts sent while it was busy. alias: the
    letter it goes by while nobody may know which pane it is, else "". marked: chosen for a
    comparison. voted: its answer to the latest broadcast has a vote. left_off: where the reader
    is; None while they follow the end."""

    number: int
    params: PaneParams
    turns: list[Turn] = field(default_factory=list)
    starts: list[Turn] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    alias: str = ""
    marked: bool = False
    voted: bool = False
    left_off: Bookmark | None = None
    id: int = field(default_factory=new_id)

    @property
    def busy(self) -> bool:
        return bool(self.turns) and not self.turns[-1].status.over

    @property
    def label(self) -> str:
        """Number and name, e.g. "2 terse"."""
        return f"{self.number} {self.params.name}".rstrip()

    @property
    def title(self) -> str:
        """What the screen calls it: the label unless it has an alias."""
        return self.alias or self.label

    @property
    def digit(self) -> int:
        """The key that goes to it: the number, or the alias's place in the alphabet."""
        return ord(self.alias) - ord("A") + 1 if self.alias else self.number

    def begin(self, prompt: str) -> Turn:
        """The prompt as the next turn."""
        return self._grow(Turn(prompt, parent=self.turns[-1] if self.turns else None))

    def beside_last(self, prompt: str, origin: Origin) -> Turn | None:
        """The prompt instead of the last one, whose turn stays as a sibling.

        None when there is no last one, or it is still being answered.
        """
        if not self.turns or self.busy:
            return None
        return self._grow(Turn(prompt, parent=self.turns[-1].parent, origin=origin))

    def siblings(self, turn: Turn) -> list[Turn]:
        """All turns with the same parent, the turn itself among them, oldest first."""
        return self.starts if turn.parent is None else turn.parent.children

    def place(self, turn: Turn) -> tuple[int, int]:
        """Which of its siblings it is, counted from 1, and how many there are."""
        siblings = self.siblings(turn)
        return siblings.index(turn) + 1, len(siblings)

    def fork_in_sight(self) -> Turn | None:
        """The latest shown turn that has siblings."""
        return next((turn for turn in reversed(self.turns) if self.place(turn)[1] > 1), None)

    def show(self, turn: Turn) -> None:
        """Show the branch the turn is on: all before it, and the newest of what followed it.

        Repeats were asked on the side: they followed only if somebody went on from them.
        """
        branch = [turn]
        while (parent := branch[-1].parent) is not None:
            branch.append(parent)
        branch.reverse()
        while followed := [
            turn
            for turn in branch[-1].children
            if turn.origin is not Origin.REPEAT or turn.children
        ]:
            branch.append(followed[-1])
        self.turns = branch

    def copied_turns(self) -> list[Turn]:
        """The shown branch as turns of another conversation."""
        copies: list[Turn] = []
        for turn in self.turns:
            parent = copies[-1] if copies else None
            copy = replace(turn, id=new_id(), parent=parent, origin=Origin.SENT, children=[])
            copy.requests = [replace(record, id=new_id()) for record in turn.requests]
            copies.append(copy)
            if parent is not None:
                parent.children.append(copy)
        return copies

    def messages(self) -> list[Message]:
        """What the engine should read for the last turn: system prompt, history, prompt.

        An answer the last turn has already comes last, to be continued; what models reasoned
        before they answered is for no later turn.
        """
        system = self.params.system
        messages: list[Message] = [{"role": "system", "content": system}] if system else []
        for turn in self.turns:
            last = turn is self.turns[-1]
            answer = turn.answer if last else answer_of(turn.answer)
            if answer or last:
                messages.append({"role": "user", "content": turn.prompt})
            if answer:
                messages.append({"role": "assistant", "content": answer})
        return messages

    def _grow(self, turn: Turn) -> Turn:
        self.siblings(turn).append(turn)
        self.show(turn)
        return turn


class Target(StrEnum):
    """Where Enter sends."""

    THIS = "this"
    ALL = "all"
    CHOSEN = "chosen"


class Session:
    """All panes, which one is active, and where prompts go. At least one pane exists always."""

    def __init__(self, panes: Iterable[PaneParams], target: Target = Target.ALL) -> None:
        self.panes: list[Conversation] = []
        self.target: Target = target if target is not Target.CHOSEN else Target.ALL
        self.chosen: set[int] = set()
        self.history: list[str] = []
        self.editing: Conversation | None = None  # whose last prompt is in the composer
        self.votes: list[Vote] = []
        self.drafts: dict[str, Draft] = {}  # by target, but for the one in the composer
        for params in panes:
            self.add(params)
        if not self.panes:
            self.add(PaneParams())
        self.active = self.panes[0]

    def add(self, params: PaneParams) -> Conversation | None:
        """A new last pane with the lowest free number; None when there are eight."""
        free = sorted(set(range(1, MAX_PANES + 1)) - {pane.number for pane in self.panes})
        if not free:
            return None
        pane = Conversation(free[0], params)
        self.panes.append(pane)
        self.panes.sort(key=lambda pane: pane.number)
        return pane

    def close(self, pane: Conversation) -> bool:
        """Drop a pane; the neighbour becomes active. The last one can't be closed.

        A text that was to be sent there joins the history.
        """
        if len(self.panes) == 1:
            return False
        at = self.panes.index(pane)
        self.panes.remove(pane)
        self.chosen.discard(pane.number)
        self._leave_empty_choice()
        self._leave_unsent(self.drafts.pop(str(pane.id), Draft()))
        if self.editing is pane:
            self.editing = None
        if self.active is pane:
            self.active = self.panes[min(at, len(self.panes) - 1)]
        return True

    def numbered(self, digit: int) -> Conversation | None:
        """The pane that the digit goes to."""
        return next((pane for pane in self.panes if pane.digit == digit), None)

    def neighbour(self, step: int) -> Conversation:
        """The pane `step` places after the active one, going round."""
        return self.panes[(self.panes.index(self.active) + step) % len(self.panes)]

    @property
    def draft_key(self) -> str:
        """What a draft is for: the pane, where Enter sends to that one only."""
        return str(self.active.id) if self.target is Target.THIS else self.target

    def swap_draft(self, key: str, draft: Draft) -> Draft:
        """The draft for where prompts go now. key, draft: where they went, and what stood there.

        Going to another conversation leaves a text behind for when one comes back. Aiming a text
        elsewhere takes it along, unless there is one already.
        """
        here = self.draft_key
        aimed = not (key.isdigit() and here.isdigit())
        if key == here or (aimed and here not in self.drafts):
            return draft
        if key.isdigit() and all(str(pane.id) != key for pane in self.panes):
            self._leave_unsent(draft)
        elif draft.text:
            self.drafts[key] = draft
        return self.drafts.pop(here, Draft())

    def toggle_target(self) -> None:
        self.target = Target.THIS if self.target is Target.ALL else Target.ALL

    def toggle_chosen(self, pane: Conversation) -> None:
        """Take a pane into the chosen set or out of it; an empty set falls back to this pane."""
        if self.target is not Target.CHOSEN:
            self.chosen = set()
            self.target = Target.CHOSEN
        self.chosen ^= {pane.number}
        self._leave_empty_choice()

    def recipients(self) -> list[Conversation]:
        """The panes Enter sends to now, in order."""
        return [pane for pane in self.panes if self.is_target(pane)]

    def is_target(self, pane: Conversation) -> bool:
        if self.editing is not None:
            return pane is self.editing
        match self.target:
            case Target.THIS:
                return pane is self.active
            case Target.ALL:
                return True
            case Target.CHOSEN:
                return pane.number in self.chosen

    @property
    def queued(self) -> list[str]:
        """Prompts that wait behind an answer, each once."""
        return list(dict.fromkeys(prompt for pane in self.panes for prompt in pane.pending))

    def remember(self, prompt: str) -> None:
        """Keep a prompt for recall; repeats move to the end."""
        if prompt in self.history:
            self.history.remove(prompt)
        self.history.append(prompt)
        del self.history[:-HISTORY_KEPT]

    def _leave_unsent(self, draft: Draft) -> None:
        if draft.text.strip():
            self.remember(draft.prompt)

    def _leave_empty_choice(self) -> None:
        if self.target is Target.CHOSEN and not self.chosen:
            self.target = Target.THIS
