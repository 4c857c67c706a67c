"""Keep one row's tokens to a grammar. The row alone waits for it; its batch goes on as it is.

llguidance says which tokens may come next, in some tens of microseconds for most steps. Rows with a
grammar need their newest token read before the next one is picked.
"""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
from llguidance import LLMatcher


class GrammarError(Exception):
    """The grammar can't be followed any further; `str()` is one line."""


class Grammar:
    """One row's place in its grammar; a `Processor` that leaves only what may come next.

    An end-of-turn token is allowed exactly where the answer may be complete.
    """

    def __init__(self, matcher: LLMatcher, after: int | None = None) -> None:
        """after: a token the row has to write before the grammar holds, such as the end of its
        thoughts. Raises GrammarError."""
        self._matcher = matcher
        self._after = after
        self._check()

    @property
    def complete(self) -> bool:
        """Whether nothing can follow any more."""
        return bool(self._matcher.is_stopped())

    def __call__(self, logits: mx.array) -> mx.array:
        """Logits [vocabulary] with all that can't come next at minus infinity."""
        if self._after is not None:
            return logits
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(packed, bitorder="little")[: logits.size]
        return mx.where(mx.array(allowed.astype(bool)), logits, -math.inf)

    def take(self, token: int) -> None:
        """Go on by a token the row picked."""
        if self._after is None:
            self._matcher.consume_token(token)
            self._check()
        elif token == self._after:
            self._after = None

    def _check(self) -> None:
        if self._matcher.is_error():
            why = " ".join(self._matcher.get_error().split())
            raise GrammarError(f"the answer can't keep to its format: {why}")
