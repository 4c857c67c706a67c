"""mlx-lm's own caches of a model: their kinds, what a token takes in them, quantizing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, make_prompt_cache

from engine.events import Capability
from engine.models.capabilities import Feature, stated
from engine.models.errors import one_line

GROUP_SIZE = 64
"""Values that share a scale and a bias; head sizes have to be multiples of it."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Of K and V. requested: bits, None for none. refused: why it can't be, "" if it can."""

    requested: int | None
    refused: str = ""

    @property
    def bits(self) -> int | None:
        """What is done: bits, None for none."""
        return None if self.refused else self.requested

    def capability(self) -> Capability:
        why = self.refused or ("asked for" if self.requested else "not asked for")
        requested, effective = _named(self.requested), _named(self.bits)
        refused = bool(self.refused)
        return stated(Feature.QUANTIZED_KV, requested, effective, why, refused=refused)


def quantization(model: Any, requested: int | None) -> Quantization:
    """Whether this model's K and V can be quantized, by the kinds of its caches and a try."""
    if requested is None:
        return Quantization(None)
    kinds = {type(leaf) for leaf in leaves(make_prompt_cache(model))}
    refused = ""
    if others := sorted(kind.__name__ for kind in kinds - {KVCache, ArraysCache}):
        refused = f"the model keeps a {' and a '.join(others)}, which can't be quantized"
    elif KVCache not in kinds:
        refused = "the model keeps no K and V"
    else:
        try:
            bytes_per_token(model, requested)
        except Exception as error:  # e.g. latent attention, which takes K and V apart itself
            refused = f"the model's attention can't use quantized K and V: {one_line(error)}"
    return Quantization(requested, refused)


def own_caches(model: Any, kv_bits: int | None = None) -> list[Any]:
    """What mlx-lm gives one row; with `kv_bits` its full-attention layers quantize K and V."""

    def quantized(cache: Any) -> Any:
        if type(cache) is CacheList:
            return CacheList(*map(quantized, cache.caches))
        return cache.to_quantized(GROUP_SIZE, kv_bits) if type(cache) is KVCache else cache

    caches = make_prompt_cache(model)
    return [quantized(cache) for cache in caches] if kv_bits else caches


def bytes_per_token(model: Any, kv_bits: int | None = None) -> int:
    """Bytes one more token of one row takes, seen by reading one: no config states it.

    Raises whatever the model raises when it can't read a token.
    """
    caches = own_caches(model, kv_bits)
    mx.eval(model(mx.array([[0]]), cache=caches))
    buffers = (
        array
        for leaf in leaves(caches)
        if getattr(leaf, "keys", None) is not None  # recurrent state has a fixed size
        for _, array in tree_flatten([leaf.keys, leaf.values])
    )
    return sum(array.nbytes // array.shape[2] for array in buffers if array.shape[2])


def leaves(caches: list[Any]) -> Iterator[Any]:
    """Every cache of every layer, those inside a `CacheList` one by one."""
    for cache in caches:
        if type(cache) is CacheList:
            yield from leaves(cache.caches)
        else:
            yield cache


def _named(bits: int | None) -> str:
    return f"{bits}-bit" if bits else "off"
