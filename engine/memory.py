"""What memory there is for rows, of running requests and of ended ones."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cache import BatchCache, CachedRow, CachePlan
from engine.cache.memory import measure
from engine.events import Capability
from engine.hardware import device
from engine.models.capabilities import Feature, stated
from engine.prefill import Group
from engine.prefix import PrefixCache, Tokens
from engine.scheduler import Candidate
from engine.sizes import readable
from engine.types import ContextLengthError, EngineSettings, GenerationRequest, KvUse

KEPT_SHARE = 8
"""Of the memory for K/V, one part in so many is for ended requests unless another size is asked."""

ANYWHERE = ("any prefix", "in flight and between turns")
AT_BOUNDARIES = (
    "at boundaries",
    "at the ends of prompts and answers: a state, or a window that moved on, can't be cut back",
)
"""What is reused, and why just that, where rows can be cut and where they can't."""


class Memory:
    """The budget, what rows cost of it, and the rows that are kept.

    The budget is half of what is free once the model is loaded. The other half is for what comes
    and goes: a prompt being read, which is a row outside the batch, and buffers while they grow.

    budget: bytes for the rows of running requests.
    """

    def __init__(self, plan: CachePlan, settings: EngineSettings) -> None:
        self._plan = plan
        self._rows = measure(plan)
        self._asked = settings.prefix_cache
        total = settings.kv_budget or device.free_bytes() // 2
        shape = plan.new()
        self._cuttable = isinstance(shape, BatchCache) and shape.cuttable
        self._kept: PrefixCache | None = None
        if isinstance(shape, BatchCache):
            asked = total // KEPT_SHARE if self._asked is None else self._asked
            self._kept = PrefixCache(shape, min(asked, total // 2))
        self.budget = total - (0 if self._kept is None else self._kept.limit)

    def cost(self, rows: int, longest: int) -> int:
        """Bytes of a batch of `rows` rows, the longest of so many tokens."""
        return self._rows.bytes(rows, longest)

    def use(self, lengths: Sequence[int]) -> KvUse:
        """What running rows of these lengths take of the budget."""
        taken = self.cost(len(lengths), max(lengths)) if lengths else 0
        return KvUse(sum(lengths), min(taken / self.budget, 1.0))

    def longest(self, context: int) -> int:
        """Tokens a row may have at most: a model's context, or less where memory ends before."""
        return self._rows.longest(self.budget, context)

    def check(self, request: GenerationRequest, context: int) -> None:
        """Refuse what could never be held. Raises ContextLengthError."""
        wanted, longest = len(request.prompt) + request.max_tokens, self.longest(context)
        if wanted <= longest:
            return
        limited = " in this machine's memory" if longest < context else ""
        raise ContextLengthError(
            f"the maximum context length is {longest} tokens{limited}, but the prompt has "
            f"{len(request.prompt)} and {request.max_tokens} were asked for"
        )

    def shortage(self, candidate: Candidate, running: int, longest: int) -> str:
        """Why a request can't start beside so many running ones."""
        needed = self.cost(running + 1, max(longest, candidate.expected))
        return (
            f"K/V memory: with this request's {candidate.expected} tokens the batch would take "
            f"{readable(needed)} of {readable(self.budget)}; a running request has to end first"
        )

    def find(self, tokens: Tokens) -> CachedRow | None:
        """The longest beginning of `tokens` among the kept rows, as views."""
        return self._kept.find(tokens) if self._kept is not None else None

    def keep(self, tokens: Tokens, row: CachedRow) -> None:
        """Copy a row that is about to go."""
        if self._kept is not None:
            self._kept.keep(tokens, row)

    def keep_ends(self, group: Group) -> None:
        """Copy rows whose prompts have been read, where that is the last chance to: a recurrent
        state moves on, while an attention layer's row can be cut back to its prompt."""
        if isinstance(group.cache, BatchCache) and not self._cuttable:
            for index, reading in enumerate(group.readings):
                self.keep(reading.tokens, group.cache.row(index))

    def clear(self) -> None:
        """Drop every kept row."""
        if self._kept is not None:
            self._kept.clear()

    def capability(self) -> Capability:
        """What becomes of reusing what was read before."""
        asked = "auto" if self._asked is None else readable(self._asked) if self._asked else "off"
        if self._kept is None:
            refused = bool(self._asked)
            return stated(Feature.PREFIX, asked, "off", self._plan.alone, refused=refused)
        if not self._kept.limit:
            why = "requests that run at once share what they begin with, and nothing is kept"
            return stated(Feature.PREFIX, asked, "in flight", why)
        where, why = ANYWHERE if self._cuttable else AT_BOUNDARIES
        return stated(Feature.PREFIX, asked, where, f"{why}; up to {readable(self._kept.limit)}")
