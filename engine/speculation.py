"""When the batch speculates and how far: a drafter's proposals, cut to the length that pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.bus import Clock
from engine.cache import CachePlan
from engine.drafters.base import NONE, Draft, Drafter
from engine.drafters.cost import Choice, CostsByDepth, VerifyCosts, choose
from engine.drafters.estimate import Promises
from engine.drafters.figures import Figures
from engine.drafters.measure import measure, verify_costs
from engine.drafters.rest import Rest
from engine.events import Progress
from engine.events import Speculation as SpeculationEvent
from engine.models.load import LoadedModel
from engine.models.prepare import ProgressSink
from engine.step import Step, Verify
from engine.types import EngineSettings

if TYPE_CHECKING:
    from engine.batch import Batch
    from engine.row import Row

MOST_UNREAD = 4
"""A row that went back to before a wrong draft is drafted for again while it has at most so many
tokens to read besides: else they would grow with every wrong draft, and each forward with them."""

UNTRIED = Promises()


def begin(
    drafter: Drafter | None,
    plan: CachePlan,
    model: LoadedModel,
    settings: EngineSettings,
    clock: Clock,
    report: ProgressSink,
) -> Speculation | None:
    """For a model whose plan has this drafter; what verifying costs is measured unless known.

    All times that decide are the clock's: ranks that share a model have one, and so draft alike.
    """
    if drafter is None:
        return None
    if settings.max_draft is not None:
        return Speculation(drafter, VerifyCosts(), clock, settings.max_draft)
    key = f"{model.path} {model.info.precision}"

    def notify(done: int, total: int) -> None:
        report(Progress("warm up", "what checking drafts costs", done, total))

    slots = settings.max_batch
    if model.shared:  # what one rank knows from before, another may not
        return Speculation(drafter, measure(plan, slots, notify, clock.now).costs, clock)
    return Speculation(drafter, verify_costs(plan, slots, key, notify), clock)


class Speculation:
    """One drafter at work on one batch. Engine thread only."""

    def __init__(
        self, drafter: Drafter, costs: VerifyCosts, clock: Clock, length: int | None = None
    ) -> None:
        """length: of every draft that is long enough; None for what pays."""
        self._drafter = drafter
        self._costs = CostsByDepth(costs)
        self._clock = clock
        self._fixed = length
        self._choice: Choice | None = None
        self._began = 0.0
        self._rest = Rest()
        self._figures = Figures(drafter.name)
        self._promises = Promises()
        self._promises_of: dict[Row, Promises] = {}

    def promising(self, batch: Batch) -> bool:
        """Whether to wait for the step in flight: its tokens are needed to propose what follows."""
        if not self._drafter.free:
            return not self._rest
        limits = [limit + 1 if limit else 0 for limit in self._limits(batch.rows)]
        outlook = self._drafter.outlook(batch.rows, limits)
        later = [_after_first(draft) for draft in outlook]
        self._choice = self._choose(batch.rows, later, [1] * len(later))
        return self._choice.length > 0

    def drafts(self, batch: Batch) -> list[Draft] | None:
        """For each row what to verify; None where a plain step does better."""
        self._began = self._clock.now()
        unread = batch.unread()
        proposals = [NONE] * len(unread)
        asked = not self._rest
        if asked:
            limits = zip(self._limits(batch.rows), unread, strict=True)
            proposals = batch.propose(
                self._drafter, [limit if behind <= MOST_UNREAD else 0 for limit, behind in limits]
            )
        spent = (self._clock.now() - self._began) * 1000
        self._choice = choice = self._choose(batch.rows, proposals, unread)
        if asked and self._fixed is None and not self._drafter.free:
            plain = self._costs_of(batch.rows).plain.get(len(unread), spent or 1.0)
            self._rest.weigh(choice, spent / plain)
        if not choice.length and max(unread) == 1:
            return None
        return [draft.cut(choice.length) for draft in proposals]

    def record(
        self, step: Step, gained: Sequence[int], milliseconds: float
    ) -> SpeculationEvent | None:
        """What a step brought its rows; how it goes, if there is news. milliseconds: of a plain
        step."""
        self._figures.forward(len(step.rows), sum(gained))
        if isinstance(step, Verify):
            self._verified(step, gained)
        else:
            self._plain(step.rows, milliseconds)
        return self._figures.news(self._choice, len(step.rows), bool(self._rest))

    def leave(self, row: Row) -> None:
        self._promises_of.pop(row, None)
        self._drafter.leave(row)

    def _plain(self, rows: Sequence[Row], milliseconds: float) -> None:
        costs = self._costs_of(rows)
        costs.record(len(rows), 1, milliseconds)
        if self._choice and self._choice.refused:
            costs.doubt(len(rows), self._choice.refused[0])
        self._rest.step()
        for promises in (self._promises, *self._promises_of.values()):
            promises.rest()

    def _verified(self, step: Verify, gained: Sequence[int]) -> None:
        milliseconds = (self._clock.now() - self._began) * 1000
        self._costs_of(step.rows).record(len(step.rows), max(step.widths), milliseconds)
        accepted = [max(count - 1, 0) for count in gained]
        self._figures.checked(sum(map(len, step.drafts)), sum(accepted))
        for row, draft, count in zip(step.rows, step.drafts, accepted, strict=True):
            if draft:
                for promises in (self._promises, self._promises_of.setdefault(row, Promises())):
                    promises.add(_expected(draft), count)
                self._drafter.verified(row, draft, count)

    def _limits(self, rows: Sequence[Row]) -> list[int]:
        """The last token is always the target's. A grammar is walked token by token."""
        longest = self._drafter.longest if self._fixed is None else self._fixed
        longest = min(longest, self._drafter.longest)
        return [
            0 if row.grammar else min(longest, max(row.request.max_tokens - row.launched - 1, 0))
            for row in rows
        ]

    def _choose(
        self, rows: Sequence[Row], drafts: Sequence[Draft], unread: Sequence[int]
    ) -> Choice:
        if self._fixed is not None:
            length = max(map(len, drafts))
            return Choice(length, length + 1, 0.0, 0.0, 0.0)
        usual = self._promises.trust()
        trust = [self._promises_of.get(row, UNTRIED).trust(usual) for row in rows]
        return choose(self._costs_of(rows), drafts, unread, trust)

    def _costs_of(self, rows: Sequence[Row]) -> VerifyCosts:
        return self._costs.at(max(row.length for row in rows))


def _after_first(draft: Draft) -> Draft:
    """What is left of it once its first token has come, if it does."""
    if len(draft) < 2:
        return NONE
    first, second, *rest = draft.chances
    return Draft(draft.tokens[1:], [first * second, *rest])


def _expected(draft: Draft) -> float:
    """Tokens of it that should be accepted."""
    alive, expected = 1.0, 0.0
    for chance in draft.chances:
        alive *= chance
        expected += alive
    return expected
