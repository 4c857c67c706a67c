"""The panes and what was said in them: plain state, no widgets, no I/O.

Widgets only show this; a store can save it whole or turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from dspark_tui.params import PaneParams

MAX_PANES = 8
HISTORY_KEPT = 200

Message = dict[str, str]
"""One entry of OpenAI's `messages`: role and content."""


class TurnStatus(StrEnum):
    WAITING = "waiting"  # not sent yet: the engine is not ready
    SENT = "sent"  # the engine has it; no text so far
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"  # by the person
    INTERRUPTED = "interrupted"  # the engine or the connection went away
    FAILED = "failed"  # the engine refused or gave up on it; `problem` says why

    @property
    def over(self) -> bool:
        return self not in (TurnStatus.WAITING, TurnStatus.SENT, TurnStatus.RUNNING)


@dataclass(slots=True)
class Turn:
    """A prompt and its answer, complete or not. replaced: a later turn tried the prompt again."""

    prompt: str
    answer: str = ""
    status: TurnStatus = TurnStatus.WAITING
    problem: str = ""
    replaced: bool = False


@dataclass(slots=True)
class Conversation:
    """One pane. number: 1 to 8, its name for life. pending: prompts sent while it was busy."""

    number: int
    params: PaneParams
    turns: list[Turn] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return bool(self.turns) and not self.turns[-1].status.over

    @property
    def label(self) -> str:
        """Number and name, e.g. "2 terse"."""
        return f"{self.number} {self.params.name}".rstrip()

    def begin(self, prompt: str) -> Turn:
        turn = Turn(prompt)
        self.turns.append(turn)
        return turn

    def begin_again(self) -> Turn | None:
        """The last prompt as a new turn; the old one stays readable but leaves the history."""
        if not self.turns or self.busy:
            return None
        self.turns[-1].replaced = True
        return self.begin(self.turns[-1].prompt)

    def messages(self) -> list[Message]:
        """What the engine should read for the last turn: system prompt, history, prompt."""
        system = self.params.system
        messages: list[Message] = [{"role": "system", "content": system}] if system else []
        for turn in self.turns[:-1]:
            if turn.answer and not turn.replaced:
                messages.append({"role": "user", "content": turn.prompt})
                messages.append({"role": "assistant", "content": turn.answer})
        messages.append({"role": "user", "content": self.turns[-1].prompt})
        return messages


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
        """Drop a pane; the neighbour becomes active. The last one can't be closed."""
        if len(self.panes) == 1:
            return False
        at = self.panes.index(pane)
        self.panes.remove(pane)
        self.chosen.discard(pane.number)
        self._leave_empty_choice()
        if self.active is pane:
            self.active = self.panes[min(at, len(self.panes) - 1)]
        return True

    def numbered(self, number: int) -> Conversation | None:
        return next((pane for pane in self.panes if pane.number == number), None)

    def neighbour(self, step: int) -> Conversation:
        """The pane `step` places after the active one, going round."""
        return self.panes[(self.panes.index(self.active) + step) % len(self.panes)]

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
        match self.target:
            case Target.THIS:
                return pane is self.active
            case Target.ALL:
                return True
            case Target.CHOSEN:
                return pane.number in self.chosen

    def remember(self, prompt: str) -> None:
        """Keep a prompt for recall; repeats move to the end."""
        if prompt in self.history:
            self.history.remove(prompt)
        self.history.append(prompt)
        del self.history[:-HISTORY_KEPT]

    def _leave_empty_choice(self) -> None:
        if self.target is Target.CHOSEN and not self.chosen:
            self.target = Target.THIS
