"""A drafter that knows the answers and errs as often as it is told, and loops that use it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest

import engine.cache.attention
import engine.loop
from engine.bus import Clock, EventBus
from engine.cache import RowCache
from engine.drafters.base import Draft, Drafter
from engine.drafters.cost import VerifyCosts
from engine.drafters.select import Selected
from engine.loop import Loop
from engine.models.capabilities import Feature, stated
from engine.models.load import LoadedModel, load
from engine.row import Row
from engine.scheduler import PrefillBudget
from engine.speculation import Speculation
from engine.types import Delta, EngineSettings, Finish, GenerationRequest, SamplingParams, Update
from tests.schedules import Job, solo
from tests.tiny_families import tiny_family

Family = Callable[..., LoadedModel]
Speculate = Callable[[Drafter, int | None], None]
GREEDY = SamplingParams()
PROMPT = (9, 8, 7)


@dataclass
class Guesses(Drafter):
    """Proposes a row's own tokens, each wrong now and then. quality: 1 is an oracle, 0 is always
    wrong. answers: what rows get without speculation, by request id. whole: drafts are as long as
    they may be, else of any length."""

    answers: dict[str, tuple[int, ...]]
    quality: float
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    name: str = "guesses"
    longest: int = 6
    claims: float | None = None
    whole: bool = False
    accepted: int = 0
    drafted: int = 0

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: RowCache) -> list[Draft]:
        return [self._draft(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def verified(self, row: Row, draft: Draft, accepted: int) -> None:
        self.drafted += len(draft)
        self.accepted += accepted

    def _draft(self, row: Row, limit: int) -> Draft:
        coming = self.answers[row.request.id][len(row.tokens) :]
        most = min(limit, len(coming))
        length = most if self.whole else self.dice.randint(0, most)
        tokens = [
            token if self.dice.random() < self.quality else token - 1 if token else 1
            for token in coming[:length]
        ]
        return Draft(tokens, [self.quality if self.claims is None else self.claims] * length)


class Answer:
    """A request answered on a loop of its own. eos: tokens that end it besides the model's."""

    def __init__(
        self, model: LoadedModel, request: GenerationRequest, eos: Collection[int] = ()
    ) -> None:
        self.request = request
        updates: list[Update] = []
        bus = EventBus(Clock(), 1, 9)
        loop = Loop(model, EngineSettings(1), bus, bus.clock, lambda _: None)
        loop._eos = {*loop._eos, *eos}
        row = loop.enqueue(request, updates.append, bus.clock.now())
        while not loop.idle:
            loop.turn()
        self.tokens = tuple(row.tokens)
        deltas = [update for update in updates if isinstance(update, Delta)]
        self.text = "".join(delta.text for delta in deltas)
        self.scored = [scored for delta in deltas for scored in delta.scored]
        self.finish = next(update for update in updates if isinstance(update, Finish))


def answers(model: LoadedModel, schedule: list[Job]) -> dict[str, tuple[int, ...]]:
    return {
        f"r{index}": solo(model, job.prompt, job.max_tokens, job.sampling)
        for index, job in enumerate(schedule)
    }


def family_in(folders: pytest.TempPathFactory) -> Family:
    """Loads a tiny model of a family, its K and V quantized if told so: `family("lfm2", 8)`."""

    @cache
    def loaded(name: str, kv_bits: int | None = None) -> LoadedModel:
        overrides = {"head_dim": 64, "hidden_size": 256} if kv_bits else {}
        folder = tiny_family(folders.mktemp(name), name, **overrides)
        return load(folder, name, kv_bits=kv_bits)

    return loaded


def draft_with(patch: pytest.MonkeyPatch, drafter: Drafter, length: int | None) -> None:
    """Have the next loops draft with this drafter, so many tokens or as many as pay."""
    selected = Selected(drafter, stated(Feature.SPECULATION, "test", drafter.name, ""))
    costs = VerifyCosts({1: {1: 1.0, 8: 1.5}, 4: {1: 1.0, 8: 3.0}})
    patch.setattr(engine.loop, "select", lambda *_: selected)
    patch.setattr(engine.loop, "begin", lambda *_: Speculation(drafter, costs, Clock(), length))
    patch.setattr(VerifyCosts, "record", lambda *_: None)  # no test depends on time
    patch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    patch.setattr(PrefillBudget, "tokens", lambda *_: 16)
