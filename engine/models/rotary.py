"""Rotary position embedding whose angles are computed once per forward, not once per layer.

MLX's CPU backend builds `mx.fast.rope` from a dozen small operations, angles included, for every
layer's queries and keys: at one row a tenth of a decode step. All layers rotate by the same angles,
so they share one table here. Interleaved ("traditional") pairs are complex numbers as they lie in
memory, and rotating them is a single multiplication.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path


class Rotations:
    """The unit complex numbers of the latest (offset, width), shared by all layers of one kind."""

    def __init__(self, dims: int, base: float, scale: float) -> None:
        self._inverse = scale * base ** (-mx.arange(0, dims, 2, dtype=mx.float32) / dims)
        # Held, not only compared: the identity of an array that is gone could come back.
        self._offset: int | mx.array | None = None
        self._width = 0
        self._table: tuple[mx.array, mx.array, mx.array] | None = None

    def at(self, offset: int | mx.array, width: int) -> tuple[mx.array, mx.array, mx.array]:
        """(cos, sin, cos + i·sin), each [rows or 1, 1, width, dims / 2]."""
        if self._table is None or width != self._width or not self._is_at(offset):
            positions = mx.array(offset).reshape(-1, 1) + mx.arange(width)
            angles = (positions.astype(mx.float32)[..., None] * self._inverse)[:, None]
            cos, sin = mx.cos(angles), mx.sin(angles)
            self._table = cos, sin, cos + 1j * sin
            self._offset, self._width = offset, width
        return self._table

    def _is_at(self, offset: int | mx.array) -> bool:
        if isinstance(offset, int) and isinstance(self._offset, int):
            return offset == self._offset
        return offset is self._offset


class SharedRoPE(nn.RoPE):
    """`nn.RoPE` reading its angles from shared `Rotations`."""

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> Any:
        """x: [rows, heads, width, dims]; offset: int, or int32 [rows]."""
        if x.dtype != mx.float32 or x.shape[-1] != self.dims:
            return super().__call__(x, offset)
        cos, sin, unit = self._rotations.at(offset, x.shape[-2])
        if self.traditional:
            return (x.view(mx.complex64) * unit).view(mx.float32)
        first, second = mx.split(x, 2, axis=-1)
        return mx.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def apply(model: nn.Module) -> None:
    """Replace every plain `nn.RoPE` of `model`; scaled variants are other classes and stay."""
    shared: dict[tuple[int, float, float], Rotations] = {}

    def replaced(_: str, module: Any) -> Any:
        if type(module) is not nn.RoPE:
            return module
        rope = SharedRoPE(module.dims, module.traditional, module.base, module.scale)
        kind = (module.dims, module.base, module.scale)
        # A plain attribute, so that the table counts as no weight.
        object.__setattr__(rope, "_rotations", shared.setdefault(kind, Rotations(*kind)))
        return rope

    leaves = model.leaf_modules()
    model.update_modules(tree_map_with_path(replaced, leaves, is_leaf=nn.Module.is_module))
