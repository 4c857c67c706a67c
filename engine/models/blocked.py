"""Matrix products for few rows, cut so that OpenBLAS does not re-pack the weights each time.

Its general product first copies the whole weight matrix into a packed form, whatever the number of
activation rows: at one row that is most of a decode step. Products up to about a million
multiplications take a direct path without packing. A weight matrix seen as a batch of slabs of a
few dozen output rows is the same memory in the same order, and each slab's product is small enough:
on the machine the README names, 1 to 12 rows take 1.3 to 2.4 times less
(`python -m tests.benchmarks matmul`). Wider products, prompts above all, stay whole.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path

DIRECT_LIMIT = 1_000_000
"""Multiplications OpenBLAS still does without packing (its small-matrix path for AVX-512)."""

WIDEST_SLAB, NARROWEST_SLAB = 64, 16


def slab_width(rows: int, outputs: int, inputs: int) -> int | None:
    """Output rows per slab for `rows` activations, None where the product is best left whole."""
    if rows * outputs * inputs <= DIRECT_LIMIT:
        return None
    width = WIDEST_SLAB
    while width >= NARROWEST_SLAB:
        if outputs % width == 0 and rows * width * inputs <= DIRECT_LIMIT:
            return width
        width //= 2
    return None


def project(x: mx.array, weight: mx.array) -> mx.array:
    """x [..., inputs] times weight [outputs, inputs] transposed."""
    outputs, inputs = weight.shape
    rows = x.size // inputs
    width = slab_width(rows, outputs, inputs)
    if width is None:
        return x @ weight.T
    slabs = weight.reshape(-1, width, inputs).swapaxes(1, 2)
    products = x.reshape(1, rows, inputs) @ slabs
    return products.swapaxes(0, 1).reshape(*x.shape[:-1], outputs)


class BlockedLinear(nn.Linear):
    """`nn.Linear` through `project`."""

    def __call__(self, x: mx.array) -> mx.array:
        y = project(x, self["weight"])
        return y + self["bias"] if "bias" in self else y


class BlockedEmbedding(nn.Embedding):
    """`nn.Embedding` whose use as an output layer goes through `project`."""

    def as_linear(self, x: mx.array) -> mx.array:
        return project(x, self["weight"])


_BLOCKED: dict[Any, Any] = {
    nn.Linear: BlockedLinear,
    nn.Embedding: BlockedEmbedding,
}


def apply(model: nn.Module) -> None:
    """Replace the plain fp32 projections of `model`; weights are shared, nothing is copied."""

    def replaced(_: str, module: nn.Module) -> nn.Module:
        kind = _BLOCKED.get(type(module))
        if kind is None or module["weight"].dtype != mx.float32:
            return module
        blocked = kind.__new__(kind)
        nn.Module.__init__(blocked)
        dict.update(blocked, module)  # the same arrays under the same names
        return blocked

    leaves = model.leaf_modules()
    model.update_modules(tree_map_with_path(replaced, leaves, is_leaf=nn.Module.is_module))
