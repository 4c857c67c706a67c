"""How many experts a batch really needs, seen while a mixture-of-experts model reads text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.switch_layers import SwitchGLU, SwitchMLP


@dataclass(frozen=True, slots=True)
class Routing:
    """One layer's choices. experts: how many it has. chosen: int [rows, tokens, of one token]."""

    experts: int
    chosen: np.ndarray

    def share(self, rows: int) -> float:
        """The share of the experts that the first `rows` rows need together, averaged over the
        tokens: a decode step has one token of each row."""
        steps = self.chosen[:rows].swapaxes(0, 1).reshape(self.chosen.shape[1], -1)
        distinct = [len(np.unique(step)) for step in steps]
        return float(np.mean(distinct)) / self.experts


def expert_shares(
    model: nn.Module, prompts: list[list[int]], widths: Sequence[int]
) -> dict[int, float]:
    """The share of the experts each number of rows needs, averaged over the layers.

    prompts: different, of equal length, at least as many as the widest. Empty for a model that
    routes nothing.
    """
    layers = [m for m in model.modules() if isinstance(m, SwitchGLU | SwitchMLP)]
    if not layers:
        return {}
    with _watched(layers) as seen:
        mx.eval(model(mx.array(prompts, dtype=mx.uint32)))
    routings = [
        Routing(experts, np.array(indices).reshape(len(prompts), -1, indices.shape[-1]))
        for experts, indices in seen
    ]
    return {rows: float(np.mean([r.share(rows) for r in routings])) for rows in widths}


@contextmanager
def _watched(layers: list[nn.Module]) -> Iterator[list[tuple[int, mx.array]]]:
    """Have routed layers note how many experts they have and which they are asked for."""
    seen: list[tuple[int, mx.array]] = []
    kinds = [type(layer) for layer in layers]
    for layer, kind in zip(layers, kinds, strict=True):
        layer.__class__ = _watching(kind, seen)
    try:
        yield seen
    finally:
        for layer, kind in zip(layers, kinds, strict=True):
            layer.__class__ = kind


def _watching(kind: type[nn.Module], seen: list[tuple[int, mx.array]]) -> type[nn.Module]:
    """The layer's class with a call that takes notes: Python looks a call up on the class."""

    def call(self: nn.Module, x: mx.array, indices: mx.array) -> Any:
        experts = next(m.num_experts for m in self.modules() if hasattr(m, "num_experts"))
        seen.append((experts, indices))
        return kind.__call__(self, x, indices)

    return type(kind.__name__, (kind,), {"__call__": call})
