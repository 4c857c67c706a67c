"""One forward of the batch's rows whose tokens may still be under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, cast

import mlx.core as mx

from engine.drafters.base import Draft
from engine.logprobs import Scores
from engine.row import Row
from engine.types import Scored

Picked = tuple[int, Scored | None]


@dataclass(frozen=True, slots=True)
class Step:
    """A decode step: one token for each row. tokens: uint32 [picks], in `rows` order. scores: for
    the rows that asked."""

    kind: ClassVar[str] = "decode"
    rows: list[Row]
    tokens: mx.array
    scores: Scores | None
    launched_at: float

    def read(self) -> list[list[Picked]]:
        """What each row gets. Waits for the tokens."""
        return [[picked] for picked in self._picks()]

    def _picks(self) -> Iterator[Picked]:
        tokens = cast(list[int], self.tokens.tolist())
        scored = self.scores.read(tokens) if self.scores else [None] * len(tokens)
        return zip(tokens, scored, strict=True)


@dataclass(frozen=True, slots=True)
class Verify(Step):
    """A verify step: the target's own pick behind each token of each row's draft, and before the
    first; one row's picks after another's.

    widths: tokens read of each row, its draft included. before: what the cache needs to undo it.
    """

    kind = "verify"
    drafts: Sequence[Draft]
    widths: list[int]
    before: list[Any]

    def read(self) -> list[list[Picked]]:
        """What each row gets: the picks its draft foresaw, and the one after those."""
        picks = self._picks()
        return [_standing(draft, list(islice(picks, len(draft) + 1))) for draft in self.drafts]


def _standing(draft: Draft, picked: list[Picked]) -> list[Picked]:
    """The picks made after nothing but right tokens."""
    for index, (drafted, (token, _)) in enumerate(zip(draft.tokens, picked, strict=False)):
        if drafted != token:
            return picked[: index + 1]
    return picked
