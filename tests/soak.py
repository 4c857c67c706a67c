"""Requests of all sorts at random, many of them cancelled: is all right, and nothing left?"""

from __future__ import annotations

import gc
import random
from collections import Counter
from dataclasses import dataclass, field

import mlx.core as mx

from engine.events import Preempted
from engine.models.load import LoadedModel
from engine.row import Row
from engine.types import FinishReason, SamplingParams
from tests.engine.stepped import Stepped
from tests.schedules import solo

SLOTS = 6
WAITING = 20
"""Requests at once, running and queued."""
CANCELLED = 1 / 3
ROOM = (3, 60)
"""Rows and their length that memory is for: some have to wait, and now and then one is put back."""
STEMS = [tuple(random.Random(number).choices(range(3, 300), k=24)) for number in range(3)]
"""What many prompts begin with."""


@dataclass(slots=True)
class Outcome:
    """What became of a model's requests.

    memory: bytes MLX holds whenever nothing runs, what is kept for later requests left out.
    objects: how many there are then. busy: slots that were never given back.
    """

    ended: Counter[FinishReason] = field(default_factory=Counter)
    wrong: list[Row] = field(default_factory=list)
    preempted: int = 0
    reused: int = 0
    busy: int = 0
    memory: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)


def soak(model: LoadedModel, requests: int, seed: int, rounds: int = 4) -> Outcome:
    """Play `requests` requests on an engine of its own, in rounds between which nothing runs."""
    room = Stepped(model).loop._memory.cost(*ROOM)
    engine = Stepped(model, SLOTS, kv_budget=2 * room, prefix_cache=room)
    outcome, dice = Outcome(), random.Random(seed)
    for _ in range(rounds):
        _round(engine, requests // rounds, dice, outcome)
        _look(engine, outcome)
    outcome.busy = engine.loop.running + len(engine.loop._rows)
    return outcome


def _round(engine: Stepped, requests: int, dice: random.Random, outcome: Outcome) -> None:
    left, turn = requests, 0
    open_rows: list[Row] = []
    ends: dict[Row, int] = {}
    while left or open_rows:
        while left and len(open_rows) < WAITING and dice.random() < 0.7:
            row = engine.ask(_prompt(dice), dice.randint(1, 40), _sampling(dice))
            open_rows.append(row)
            left -= 1
            if dice.random() < CANCELLED:
                ends[row] = turn + dice.randint(0, 25)
        engine.turn()
        turn += 1
        for row in [row for row in open_rows if row.finished]:
            open_rows.remove(row)
            _judge(engine, row, outcome)
        for row in open_rows:
            if ends.get(row) == turn:
                engine.loop.cancel(row.request.id)
    outcome.preempted += sum(isinstance(event, Preempted) for event in engine.events)
    engine.events.clear()


def _judge(engine: Stepped, row: Row, outcome: Outcome) -> None:
    request = row.request
    outcome.reused += row.cached
    alone = solo(engine.loop.model, request.prompt, len(row.tokens), request.sampling)
    if tuple(row.tokens) != alone:
        outcome.wrong.append(row)
    outcome.ended[engine.ends.pop(request.id).reason] += 1


def _look(engine: Stepped, outcome: Outcome) -> None:
    gc.collect()
    outcome.memory.append(mx.get_active_memory() - engine.kept)
    outcome.objects.append(len(gc.get_objects()))


def _prompt(dice: random.Random) -> tuple[int, ...]:
    stem = dice.choice([(), *STEMS])[: dice.randint(12, 24)]
    tail = dice.choices(range(3, 300), k=dice.randint(0 if stem else 1, 30))
    return (*stem, *tail)


def _sampling(dice: random.Random) -> SamplingParams:
    if dice.random() < 0.4:
        return SamplingParams()
    return SamplingParams(
        temperature=dice.choice([0.0, 0.7, 1.3]),
        top_p=dice.choice([1.0, 0.9]),
        top_k=dice.choice([0, 20]),
        seed=dice.getrandbits(64),
        repetition_penalty=dice.choice([1.0, 1.2]),
        presence_penalty=dice.choice([0.0, 0.5]),
        frequency_penalty=dice.choice([0.0, 0.3]),
    )
