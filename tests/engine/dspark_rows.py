"""Rows of a target and a drafter, moved by hand: read, draft, advance, leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
from mlx_lm.models.base import create_attention_mask

from engine.cache.batch import BatchCache
from engine.drafters.base import Draft, Drafter
from engine.models.load import LoadedModel
from engine.row import Row
from engine.types import GenerationRequest, SamplingParams


@dataclass
class Rows:
    """A batch whose rows have read all of their histories but the last token."""

    target: LoadedModel
    drafter: Drafter
    cache: BatchCache = field(init=False)
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = BatchCache(self.target.model, drafter=self.drafter)

    def join(
        self, prompt: Sequence[int], sampling: SamplingParams | None = None, slices: int = 100
    ) -> Row:
        """A row that read its prompt apart, `slices` tokens at a time, and then joined."""
        alone = BatchCache(self.target.model, drafter=self.drafter)
        alone.append_empty()
        for start in range(0, len(prompt) - 1, slices):
            piece = prompt[start : min(start + slices, len(prompt) - 1)]
            self.drafter.read(self.target.model, mx.array([piece]), alone)
            alone.rows.advance([len(piece)])
        request = GenerationRequest(
            f"r{len(self.rows)}", tuple(prompt), 100, sampling or SamplingParams()
        )
        row = Row.create(request, lambda _: None, self.target.tokenizer, 0.0)
        self.cache.append_from(alone, 0)
        self.rows.append(row)
        return row

    def leave(self, row: Row) -> None:
        index = self.rows.index(row)
        self.cache.remove(index)
        self.rows[index] = self.rows[-1]
        self.rows.pop()

    def verify(self, drafts: Sequence[Sequence[int]], accepted: Sequence[Sequence[int]]) -> None:
        """The target reads each row's latest token and its drafts; `accepted` is what each row
        then has more, its own pick last."""
        widths = [1 + len(draft) for draft in drafts]
        inputs = [
            [history(row)[-1], *draft, *[0] * (max(widths) - 1 - len(draft))]
            for row, draft in zip(self.rows, drafts, strict=True)
        ]
        self.cache.rows.expect(widths)
        mx.eval(self.drafter.read(self.target.model, mx.array(inputs), self.cache))
        self.cache.rows.advance([len(tokens) for tokens in accepted])
        for row, tokens in zip(self.rows, accepted, strict=True):
            row.tokens.extend(tokens)

    def propose(self, limits: int | Sequence[int] = 100) -> list[Draft]:
        each = [limits] * len(self.rows) if isinstance(limits, int) else limits
        return self.drafter.propose(self.rows, each, self.cache)


def history(row: Row) -> list[int]:
    return [*row.request.prompt, *row.tokens]


def features(target: LoadedModel, tokens: Sequence[int], layers: Sequence[int]) -> np.ndarray:
    """What a llama's `layers` are given for these tokens, side by side, computed layer by layer."""
    inner = target.model.model
    x = inner.embed_tokens(mx.array([list(tokens)]))
    mask = create_attention_mask(x, None)
    given = []
    for index, layer in enumerate(inner.layers):
        if index in layers:
            given.append(x)
        x = layer(x, mask, None)
    return np.array(mx.concatenate(given, axis=-1)[0])
