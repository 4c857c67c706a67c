"""One prompt asked several times of each pane: how often does the same answer come?

The answers are turns beside the pane's own, so they are stored, found and exported as any other.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from dspark_tui.batch.judged import AT_ONCE
from dspark_tui.conversation.params import DRAWN_SEED_BITS, SEED_BITS
from dspark_tui.conversation.reasoning import answer_of
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.run import Run
from dspark_tui.conversation.session import Conversation
from dspark_tui.conversation.turns import Origin, Turn, TurnStatus
from dspark_tui.engines.engines import Engines


class Attempt(Struct, frozen=True):
    """One request. turn: what it is kept as. run: None where it was asked earlier."""

    pane: Conversation
    number: int
    turn: Turn
    run: Run | None = None

    @property
    def over(self) -> bool:
        return self.turn.status.over

    @property
    def whole(self) -> bool:
        return self.turn.status is TurnStatus.DONE

    @property
    def problem(self) -> str:
        """Why the answer is not whole, "" if it is."""
        return "" if self.whole else self.turn.problem or self.turn.status

    @property
    def record(self) -> RequestRecord:
        """Empty while nothing was sent."""
        if self.turn.requests:
            return self.turn.requests[-1]
        return RequestRecord(0) if self.run is None else self.run.record()


class Group(Struct, frozen=True):
    """Attempts of one pane with the same answer, character by character; thoughts may differ."""

    text: str
    attempts: tuple[Attempt, ...]


class Repeats:
    """Requests of all panes, sent at once: they share the engine's batch. No pane shows them.

    attempts: at first those of the latest time the prompt was repeated there.
    """

    def __init__(self, prompt: str, panes: Sequence[Conversation], engines: Engines) -> None:
        self.prompt, self.panes = prompt, panes
        self._engines = engines
        self.attempts = _kept(prompt, panes)

    def ask(self, times: int, *, same: bool) -> None:
        """Ask each pane's engine. same: with one seed for all; else each has the next one."""
        drawn = random.getrandbits(DRAWN_SEED_BITS)
        self.attempts = [
            self._asked(pane, number, self._seed(pane, drawn, number, same=same))
            for pane in self.panes
            for number in range(1, times + 1)
        ]

    def forget(self) -> None:
        """Look at none of them any more; their turns stay."""
        self.attempts = []

    @property
    def running(self) -> bool:
        return not all(attempt.over for attempt in self.attempts)

    @property
    def receiving(self) -> list[Run]:
        return [a.run for a in self.attempts if a.run is not None and not a.over]

    def stop(self) -> None:
        """What was written stays."""
        for run in self.receiving:
            run.stop()

    async def close(self) -> None:
        """Stop, and wait until all connections are closed."""
        await asyncio.gather(*(a.run.finish() for a in self.attempts if a.run is not None))

    def of(self, pane: Conversation) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.pane is pane]

    def _asked(self, pane: Conversation, number: int, seed: int | None) -> Attempt:
        """The run sees the pane's history and a label that tells it from the others."""
        turn = Turn(self.prompt, parent=_before(pane, self.prompt), origin=Origin.REPEAT, seed=seed)
        params = replace(pane.params, name=f"{pane.params.name} #{number}".lstrip())
        branch = pane.turns[: pane.turns.index(turn.parent) + 1] if turn.parent else []
        link = self._engines.of(pane.params.engine)
        link.revive()
        run = Run(replace(pane, turns=[*branch, turn], params=params), turn, link)
        pane.siblings(turn).append(turn)
        return Attempt(pane, number, turn, run)

    def _seed(self, pane: Conversation, drawn: int, number: int, *, same: bool) -> int | None:
        """From the pane's own, else from one for all panes, so that its answer can be had again.

        None for a server that hides its batch: some leave it as soon as a request has a seed.
        """
        first = pane.params.seed
        if first is None:
            hidden = self._engines.of(pane.params.engine).batch_hidden
            if hidden and not same:
                return None
            first = drawn
        return (first + (0 if same else number - 1)) % (1 << SEED_BITS)


def groups(attempts: Iterable[Attempt]) -> list[Group]:
    """One for each distinct whole answer, the most frequent first, then in the order asked."""
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.whole:
            found.setdefault(answer_of(attempt.turn.answer), []).append(attempt)
    return sorted(
        (Group(text, tuple(alike)) for text, alike in found.items()),
        key=lambda group: -len(group.attempts),
    )


def agreement(attempts: Sequence[Attempt]) -> str:
    """How many of the whole answers are the same, in words; "" before there are two."""
    sizes = [len(group.attempts) for group in groups(attempts)]
    if sum(sizes) < 2:
        return ""
    return f"all {sum(sizes)} differ" if sizes[0] == 1 else f"{sizes[0]} of {sum(sizes)} identical"


def problems(attempts: Iterable[Attempt]) -> Counter[str]:
    """Why answers are not whole, with how many are so."""
    return Counter(a.problem for a in attempts if a.over and not a.whole)


def _before(pane: Conversation, prompt: str) -> Turn | None:
    """The turn the prompt comes after; one that was the last anyway is not said twice."""
    again = bool(pane.turns) and pane.turns[-1].prompt == prompt
    turns = pane.turns[:-1] if again else pane.turns
    return turns[-1] if turns else None


def _kept(prompt: str, panes: Iterable[Conversation]) -> list[Attempt]:
    """Those of the latest time that the prompt was repeated where the panes are now."""
    found = [
        (turn, pane)
        for pane in panes
        for turn in pane.siblings(Turn(prompt, parent=_before(pane, prompt)))
        if turn.origin is Origin.REPEAT and turn.prompt == prompt
    ]
    found.sort(key=lambda kept: kept[0].id)
    gaps = [later.created - turn.created for (turn, _), (later, _) in pairwise(found)]
    start = max((n for n, gap in enumerate(gaps, 1) if gap > AT_ONCE), default=0)
    numbers = Counter[int]()
    attempts = []
    for turn, pane in found[start:]:
        numbers[pane.number] += 1
        attempts.append(Attempt(pane, numbers[pane.number], turn))
    return attempts
