"""Asks an engine all cells of an experiment, so many at once that no slot is ever idle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from math import ceil
from typing import Protocol

from dspark_tui.conversation.answer import Answer, opening
from dspark_tui.engines.client import EngineClient
from dspark_tui.engines.client_errors import (
    BusyError,
    ClientError,
    ConnectionLostError,
    NoEventsError,
)
from dspark_tui.experiments.experiment import Cell
from engine.events import Snapshot

LEAD = 0.5
"""Requests that wait in the engine's queue for each slot, and at least one: answers of one length
end together, and a slot must be taken the moment it is free.
"""

RETRY_DELAYS = (1.0, 3.0, 9.0)
"""Seconds before each further try of a cell when the engine is busy or was lost."""


class Listener(Protocol):
    """Told of each cell as it begins, once for every try, and as it ends."""

    def began(self, cell: Cell, answer: Answer) -> None:
        """answer: grows from now on."""

    def answered(self, cell: Cell, answer: Answer) -> None: ...

    def failed(self, cell: Cell, error: ClientError) -> None: ...


async def run_cells(
    client: EngineClient, cells: Iterable[Cell], slots: int, listener: Listener
) -> None:
    """Ask all of them. A cell that is refused fails alone; raises ConnectionLostError when the
    engine stays away, and whatever the listener raises.
    """
    waiting = iter(cells)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(slots + ceil(slots * LEAD)):
                group.create_task(_work(client, waiting, listener))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def slots_of(client: EngineClient) -> int | None:
    """How many requests the server runs at once, None if it doesn't say."""
    try:
        async with aclosing(client.events()) as events:
            first = await anext(events)
    except NoEventsError:
        return None
    return first.slots if isinstance(first, Snapshot) else None


async def _work(client: EngineClient, waiting: Iterator[Cell], listener: Listener) -> None:
    for cell in waiting:
        try:
            answer = await _answer(client, cell, listener)
        except ConnectionLostError:
            raise
        except ClientError as error:
            listener.failed(cell, error)
        else:
            listener.answered(cell, answer)


async def _answer(client: EngineClient, cell: Cell, listener: Listener) -> Answer:
    """The whole answer; what broke off is asked again from its start."""
    messages = [*opening(cell.params.system), {"role": "user", "content": cell.message}]
    for delay in (*RETRY_DELAYS, None):
        answer = Answer()
        listener.began(cell, answer)
        try:
            await answer.receive(client, messages, cell.params, cell.source)
            break
        except (BusyError, ConnectionLostError):
            if delay is None:
                raise
            await asyncio.sleep(delay)
    return answer
