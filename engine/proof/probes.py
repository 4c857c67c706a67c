"""The questions a server is asked: the sweep over widths, then one probe for each doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from engine.proof.prompts import Prompts
from engine.proof.shape import Solo
from engine.proof.traffic import Ask, Record, Server, timings

POLL = 0.005
BRIEF_TOKENS = 8
"""Of an answer whose first token is all that matters."""
CONTEXT_TOKENS = 32
CONTEXT_WORDS = (100, 400, 1600)
LONG_WORDS = 450
MIXED_SAMPLING = ((0.0, None), (0.7, 11), (1.0, 12), (0.0, None))
"""Temperature and seed of each request of the mixed burst."""
PREFIX_TIMES = 3
BARREN_BURSTS = 2
"""In a row without a single answer, after which there is no more asking."""


class Kind(StrEnum):
    """What a round of requests is for."""

    SWEEP = "sweep"
    STAGGERED = "staggered"
    MIXED = "mixed"
    JOIN = "join"
    RELEASE = "release"
    PREFIX = "prefix"
    CONTEXT = "context"


PROBES = tuple(kind for kind in Kind if kind is not Kind.SWEEP)


@dataclass(frozen=True, slots=True)
class Plan:
    """widths: how many requests are sent together, the baseline of 1 among them. tokens: of each
    answer. seed: sent with every request that has no other, None for none."""

    widths: tuple[int, ...] = (1, 2, 4, 8)
    tokens: int = 128
    repeat: int = 3
    probes: tuple[Kind, ...] = PROBES
    seed: int | None = None


@dataclass(slots=True)
class Round:
    """Requests that belong together. repeat: from 1. begun: on the event loop's clock."""

    kind: Kind
    records: list[Record]
    repeat: int = 1
    begun: float = 0.0
    done: bool = False

    @property
    def width(self) -> int:
        return len(self.records)

    @property
    def title(self) -> str:
        return f"N={self.width}" if self.kind is Kind.SWEEP else self.kind.value


def baseline(rounds: Sequence[Round]) -> Solo | None:
    """What a request takes alone, from the sweep's rounds of one."""
    alone = [r for r in rounds if r.kind is Kind.SWEEP and r.width == 1 and r.done]
    runs = timings([record for round_ in alone for record in round_.records])
    return Solo.of(runs) if runs else None


@dataclass
class Examination:
    """A plan carried out on a server. rounds: so far; whoever stops it keeps what there is.

    on_round: called when a round begins and when it is done.
    """

    server: Server
    plan: Plan
    on_round: Callable[[Round], None] = lambda _: None
    rounds: list[Round] = field(default_factory=list)
    _prompts: Prompts = field(default_factory=Prompts)

    async def run(self) -> None:
        """Returns early when burst after burst brings nothing: the server is gone or useless."""
        barren = 0
        for repeat in range(1, self.plan.repeat + 1):
            for width in self.plan.widths:
                barren = 0 if await self._together(self._sweep(width, repeat)) else barren + 1
                if barren == BARREN_BURSTS:
                    return
        probes = {
            Kind.STAGGERED: self._staggered,
            Kind.MIXED: self._mixed,
            Kind.JOIN: self._join,
            Kind.RELEASE: self._release,
            Kind.PREFIX: self._prefix,
            Kind.CONTEXT: self._context,
        }
        for kind in self.plan.probes:
            await probes[kind]()

    def _sweep(self, width: int, repeat: int) -> Round:
        records = [self._record(self.plan.tokens, f"bench N={width}") for _ in range(width)]
        return Round(Kind.SWEEP, records, repeat)

    async def _staggered(self) -> None:
        """A short request is sent while a long one runs alone."""
        running = self._record(self.plan.tokens, "bench staggered")
        newcomer = self._record(max(BRIEF_TOKENS, self.plan.tokens // 4), "bench newcomer")
        await self._joining([running], newcomer, Kind.STAGGERED)

    async def _join(self) -> None:
        """A long prompt joins running streams."""
        streams = [self._record(2 * self.plan.tokens, "bench stream") for _ in range(2)]
        prompt = self._prompts.long(LONG_WORDS)
        await self._joining(
            streams, self._record(BRIEF_TOKENS, "bench long prompt", prompt), Kind.JOIN
        )

    async def _mixed(self) -> None:
        asks = [
            Ask(self._prompts.short(), self.plan.tokens, heat, seed, source="bench mixed")
            for heat, seed in MIXED_SAMPLING
        ]
        await self._together(Round(Kind.MIXED, [Record(ask) for ask in asks]))

    async def _release(self) -> None:
        """Answers of unequal length, not streamed."""
        lengths = [max(1, self.plan.tokens * quarters // 4) for quarters in (1, 2, 3, 4)]
        asks = [
            Ask(self._prompts.short(), length, seed=self.plan.seed, stream=False, source="bench")
            for length in lengths
        ]
        await self._together(Round(Kind.RELEASE, [Record(ask) for ask in asks]))

    async def _prefix(self) -> None:
        prompt = self._prompts.long(LONG_WORDS)
        records = [self._record(BRIEF_TOKENS, "bench prefix", prompt) for _ in range(PREFIX_TIMES)]
        await self._in_turn(Round(Kind.PREFIX, records))

    async def _context(self) -> None:
        records = [
            self._record(CONTEXT_TOKENS, "bench context", self._prompts.long(words))
            for words in CONTEXT_WORDS
        ]
        await self._in_turn(Round(Kind.CONTEXT, records))

    def _record(self, tokens: int, source: str, prompt: str = "") -> Record:
        prompt = prompt or self._prompts.short()
        return Record(Ask(prompt, tokens, seed=self.plan.seed, source=source))

    async def _together(self, round_: Round) -> bool:
        """All at once. Did any request come to its end?"""
        self._begin(round_)
        await asyncio.gather(*(self.server.ask(record) for record in round_.records))
        self._end(round_)
        return bool(timings(round_.records))

    async def _in_turn(self, round_: Round) -> None:
        self._begin(round_)
        for record in round_.records:
            await self.server.ask(record)
            if record.error:
                break  # longer contexts will fare no better
        self._end(round_)

    async def _joining(self, running: list[Record], newcomer: Record, kind: Kind) -> None:
        """Send `newcomer` once a quarter of each running answer is there, or was due."""
        round_ = Round(kind, [*running, newcomer])
        self._begin(round_)
        async with asyncio.TaskGroup() as group:
            for record in running:
                group.create_task(self.server.ask(record))
            while not all(self._well_under_way(record, round_.begun) for record in running):
                await asyncio.sleep(POLL)
            group.create_task(self.server.ask(newcomer))
        self._end(round_)

    def _well_under_way(self, record: Record, begun: float) -> bool:
        if record.end is not None or record.error:
            return True
        tokens = self.plan.tokens // 4
        if len(record.arrivals) >= tokens:
            return True
        solo = baseline(self.rounds)
        due = solo.seconds_for(tokens) if solo else 0.0
        return not record.arrivals and _now() - begun > due  # text may come only at the end

    def _begin(self, round_: Round) -> None:
        round_.begun = _now()
        self.rounds.append(round_)
        self.on_round(round_)

    def _end(self, round_: Round) -> None:
        round_.done = True
        self.on_round(round_)


def usual_gap(records: Sequence[Record]) -> float:
    """The median time between two pieces of text."""
    return median([gap for record in records for gap in record.gaps] or [0.0])


def _now() -> float:
    return asyncio.get_running_loop().time()
