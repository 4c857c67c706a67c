"""A prompt and its answer: one node of a conversation's tree. Plain state."""

from __future__ import annotations

import random
import time
from enum import StrEnum

from msgspec import Struct, field

from dspark_tui.batch.ending import Ending, ending_by
from dspark_tui.conversation.request_record import RequestRecord

RANDOM_BITS = 12


def new_id() -> int:
    """A 63-bit number no other process gives out; later ones are larger."""
    return time.time_ns() >> RANDOM_BITS << RANDOM_BITS | random.getrandbits(RANDOM_BITS)


class TurnStatus(StrEnum):
    WAITING = "waiting"  # not sent yet: the engine is not ready
    SENT = "sent"  # the engine has it; no text so far
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"  # by a person, here or elsewhere
    INTERRUPTED = "interrupted"  # the engine, the connection or the workbench went away
    FAILED = "failed"  # the engine refused or gave up on it; `problem` says why

    @property
    def over(self) -> bool:
        return self not in (TurnStatus.WAITING, TurnStatus.SENT, TurnStatus.RUNNING)


class Origin(StrEnum):
    """What a turn changes against the sibling it was made from."""

    SENT = ""  # nothing: it is the first one
    EDITED = "edited"
    NEW_SEED = "new seed"
    SAME_SEED = "same seed"
    REPEAT = "repeat"  # perhaps the seed: it is one of several asked at once, to be compared


class Turn(Struct, eq=False):
    """A prompt and its answer, complete or not. Siblings have the same parent.

    seed: what it was sent with, None where the server drew one. requests: one, and one more for
    each time the answer was continued.
    """

    prompt: str
    answer: str = ""
    status: TurnStatus = TurnStatus.WAITING
    problem: str = ""
    parent: Turn | None = None
    origin: Origin = Origin.SENT
    seed: int | None = None
    id: int = field(default_factory=new_id)
    children: list[Turn] = field(default_factory=list)
    requests: list[RequestRecord] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Turn({self.prompt!r}, {self.answer!r}, {self.status!r})"

    @property
    def created(self) -> float:
        """Unix time."""
        return self.id / 1e9

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it hasn't."""
        said = ending_by(self.requests[-1].reason if self.requests else "")
        match self.status:
            case TurnStatus.DONE:
                return said
            case TurnStatus.STOPPED if said is Ending.STOPPED:  # the engine said it, not `Run.stop`
                return Ending.ELSEWHERE
            case _:
                return Ending(self.status) if self.status.over else None

    @property
    def state(self) -> str:
        """In one word: how it ended, or where it is."""
        return self.ending or self.status

    @property
    def can_go_on(self) -> bool:
        """Is there an answer that was not finished by the model itself?"""
        return bool(self.answer) and self.ending not in (None, Ending.DONE)
