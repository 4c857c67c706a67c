"""What a drafter is: it proposes tokens, and the target checks several in one forward.

A draft is accepted while it equals the token the target itself picks there, so a drafter can cost
time but never change an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.cache.protocols import LayerCache, RowCache
from engine.cache.rows import RowLengths
from engine.row import Row


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may follow a row's history. chances: for each, how likely the target picks it
    too, given that it picked those before.

    The tokens must be in the target's vocabulary: for others MLX reads beyond its embeddings, and
    what stands there, a NaN perhaps, spoils the row.
    """

    tokens: Sequence[int] = ()
    chances: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    def cut(self, length: int) -> Draft:
        return Draft(self.tokens[:length], self.chances[:length])


NONE = Draft()


class Drafter:
    """Proposes for the rows of one batch. To be subclassed. Engine thread only.

    What it keeps for each token a row has read (a drafter with attention to the target's hidden
    states does) goes into layers of its own beside the target's: `context` makes them, `read` fills
    them. They are part of the rows' cache, so they join, leave, are rolled back, copied and kept
    for reuse with the target's, and never have a hole.

    longest: tokens it can propose at once. free: proposing takes no time to speak of.
    """

    name: str
    longest: int
    free = False

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: RowCache) -> list[Draft]:
        """At most `limits[i]` tokens to follow what `rows[i]` has, `NONE` where it knows none.

        Nothing is in flight: `row.request.prompt` and `row.tokens` are the whole history. Row i of
        the cache is `rows[i]` and has read all of it but the last token, or less
        (`cache.rows.lengths`) where the target couldn't take rejected drafts back. What is written
        into the context behind a row's length is scratch.
        """
        raise NotImplementedError

    def outlook(self, rows: Sequence[Row], limits: Sequence[int]) -> list[Draft]:
        """As `propose`, while the rows' latest token is still on its way: what begins with it.
        Asked before every step, of drafters that are free."""
        raise NotImplementedError

    def verified(self, row: Row, draft: Draft, accepted: int) -> None:
        """The target checked a row's draft and picked its first `accepted` tokens too; the row has
        its new tokens already."""

    def leave(self, row: Row) -> None:
        """A row that proposals may have been made for is gone."""

    def context(self, rows: RowLengths) -> list[LayerCache]:
        """Empty layers for a new cache whose rows have these lengths."""
        return []

    def read(self, target: Any, tokens: mx.array, cache: RowCache) -> mx.array:
        """Every forward of the target goes through here: its logits [rows, width, vocabulary].

        tokens: uint32 [rows, width], right-padded, written behind the rows' lengths; a drafter with
        a context writes theirs at the same places (`cache.context`) and has it evaluated, which the
        logits don't need.
        """
        logits: mx.array = target(tokens, cache=cache.layers)
        return logits
