"""What runs now: at most one answer per pane, later prompts waiting behind it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dspark_tui.conversation.params import DRAWN_SEED_BITS
from dspark_tui.conversation.session import Conversation, Turn, TurnStatus
from dspark_tui.conversation.turns import Origin
from dspark_tui.engines.engines import Engines

if TYPE_CHECKING:
    from dspark_tui.conversation.run import Run


class Runs:
    """Starts and stops runs. on_begin: called with each new run, to show it. on_drop: called with
    each queued prompt that will never be sent."""

    def __init__(
        self,
        engines: Engines,
        on_begin: Callable[[Run], None],
        on_drop: Callable[[Conversation, str], None],
    ) -> None:
        self._engines = engines
        self._on_begin, self._on_drop = on_begin, on_drop
        self._running: dict[int, Run] = {}  # by pane

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._running.values()))

    def __len__(self) -> int:
        return len(self._running)

    def of(self, pane: Conversation) -> Run | None:
        return self._running.get(pane.id)

    def send(self, pane: Conversation, prompt: str) -> None:
        """Start an answer, or queue the prompt behind the one that runs."""
        if pane.id in self._running:
            pane.pending.append(prompt)
        else:
            self._start(pane, pane.begin(prompt))

    def instead(self, pane: Conversation, prompt: str, origin: Origin) -> str:
        """Answer the prompt in place of the last one, which stays as a sibling.

        Returns why that can't be, or "".
        """
        old = pane.turns[-1] if pane.turns else None
        if origin is Origin.SAME_SEED and old is not None and old.seed is None:
            return "this server chose the seed by itself: nobody knows it"
        turn = None if pane.id in self._running else pane.beside_last(prompt, origin)
        if old is None or turn is None:
            return "this pane is busy" if pane.busy else "nothing to send again"
        if origin is Origin.SAME_SEED:
            turn.seed = old.seed
        elif origin is Origin.NEW_SEED and pane.params.seed is not None:
            turn.seed = random.getrandbits(DRAWN_SEED_BITS)
        self._start(pane, turn)
        return ""

    def go_on(self, pane: Conversation) -> str:
        """Continue the last answer where it broke off. Returns why that can't be, or ""."""
        if pane.id in self._running:
            return "this pane is busy"
        if not pane.turns or not pane.turns[-1].can_go_on:
            return "no answer here that was cut short"
        turn = pane.turns[-1]
        turn.status, turn.problem = TurnStatus.WAITING, ""
        self._start(pane, turn)
        return ""

    def stop_step(self, pane: Conversation) -> str:
        """Take back the newest queued prompt, else stop the answer. Says what it did, or ""."""
        if pane.pending:
            self._drop(pane)
            return "took back the queued prompt"
        run = self.of(pane)
        if run is None:
            return ""
        run.stop()
        return "stopped"

    def stop_all(self) -> int:
        """Stop every answer and drop queued prompts. Returns how many answers ran."""
        for run in self:
            self._drop_all(run.pane)
            run.stop()
        return len(self)

    def retire(self, run: Run) -> None:
        """Forget a run that is over and start what waited behind it."""
        del self._running[run.pane.id]
        if run.pane.pending:
            self._start(run.pane, run.pane.begin(run.pane.pending.pop(0)))

    async def close(self, pane: Conversation | None = None) -> None:
        """Stop the pane's run, or all, and wait until their connections are closed.

        Ending all is leaving the session, which is kept with what is queued in it.
        """
        ending = [run for run in self if pane is None or run.pane is pane]
        for run in ending:
            self._running.pop(run.pane.id)
        if pane is not None:
            self._drop_all(pane)
        await asyncio.gather(*(run.finish() for run in ending))

    def _drop(self, pane: Conversation) -> None:
        self._on_drop(pane, pane.pending.pop())

    def _drop_all(self, pane: Conversation) -> None:
        while pane.pending:
            self._drop(pane)

    def _start(self, pane: Conversation, turn: Turn) -> None:
        from dspark_tui.conversation.run import Run  # brings the engine's events along

        link = self._engines.of(pane.params.engine)
        link.revive()
        run = Run(pane, turn, link)
        self._running[pane.id] = run
        self._on_begin(run)
