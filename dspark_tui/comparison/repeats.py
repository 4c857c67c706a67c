"""One prompt asked several times of each pane: how often does the same answer come?"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import SEED_BITS
from dspark_tui.conversation.reasoning import answer_of
from dspark_tui.conversation.session import Conversation, Turn
from dspark_tui.engines.chat_updates import Message

if TYPE_CHECKING:
    from dspark_tui.engines.client import EngineClient

ClientOf = Callable[[Conversation], Awaitable["EngineClient"]]
"""Gives the client of a pane's engine once that can be asked."""


@dataclass(slots=True)
class Attempt:
    """One request. seed: what it is sent with, None where the server draws one."""

    pane: Conversation
    number: int
    seed: int | None
    answer: Answer = field(default_factory=Answer)
    over: bool = False

    @property
    def whole(self) -> bool:
        return self.over and not self.answer.problem

    async def ask(self, client_of: ClientOf, messages: list[Message]) -> None:
        """Returns when the answer is whole or has a problem."""
        from dspark_tui.engines.client_errors import ClientError

        params = replace(self.pane.params, seed=self.seed)
        source = f"{self.pane.label} #{self.number}"
        try:
            with suppress(ClientError):  # the answer says what went wrong
                client = await client_of(self.pane)
                await self.answer.receive(client, messages, params, source)
        finally:
            self.over = True


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts of one pane with the same answer, character by character; thoughts may differ."""

    text: str
    attempts: tuple[Attempt, ...]


class Repeats:
    """All requests of all panes, sent at once: they share the engine's batch."""

    def __init__(
        self,
        prompt: str,
        panes: Sequence[Conversation],
        times: int,
        first_seed: Callable[[Conversation], int | None],
        *,
        same: bool,
    ) -> None:
        """same: every attempt of a pane has its first seed; else each has the next one."""
        self.prompt, self.panes = prompt, panes
        self.attempts = [
            Attempt(pane, number, _seed(first_seed(pane), 0 if same else number - 1))
            for pane in panes
            for number in range(1, times + 1)
        ]

    async def run(self, client_of: ClientOf) -> None:
        """Ask each pane's engine; cancelling it ends what still runs."""
        messages = {pane.number: _messages(pane, self.prompt) for pane in self.panes}
        async with asyncio.TaskGroup() as group:
            for attempt in self.attempts:
                group.create_task(attempt.ask(client_of, messages[attempt.pane.number]))

    def of(self, pane: Conversation) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.pane is pane]


def groups(attempts: Iterable[Attempt]) -> list[Group]:
    """One for each distinct whole answer, the most frequent first, then in the order asked."""
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.whole:
            found.setdefault(answer_of(attempt.answer.text), []).append(attempt)
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
    return Counter(a.answer.problem for a in attempts if a.over and not a.whole)


def _seed(first: int | None, step: int) -> int | None:
    return None if first is None else (first + step) % (1 << SEED_BITS)


def _messages(pane: Conversation, prompt: str) -> list[Message]:
    """The pane's history with the prompt; one that was the last anyway is not said twice."""
    again = bool(pane.turns) and pane.turns[-1].prompt == prompt
    turns = pane.turns[:-1] if again else pane.turns
    return replace(pane, turns=[*turns, Turn(prompt)]).messages()
