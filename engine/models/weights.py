"""A loaded model's tensors, and how decoding reads each of them."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.hardware.roofline import Reading, Tensor

_CHOSEN_KEYS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
    "top_k_experts",
    "moe_k",
)
"""Where configs say how many experts serve a token."""


def tensors(model: nn.Module, config: dict[str, Any]) -> list[Tensor]:
    """Every weight tensor, in the model's own order. Only sizes are looked at: any thread."""
    modules = dict(model.named_modules())
    output = _output_embedding(modules)
    chosen = _experts_chosen(config)
    found = []
    for name, array in tree_flatten(model.parameters()):
        path, _, parameter = name.rpartition(".")
        module = modules[path]
        reading, entries = _reading(module, output)
        is_weight = parameter == "weight" and len(array.shape) > 1 and reading is not Reading.ROW
        found.append(
            Tensor(
                name=name,
                shape=tuple(array.shape),
                dtype=str(array.dtype).removeprefix("mlx.core."),
                bytes=int(array.nbytes),
                reading=reading,
                entries=entries,
                chosen=min(chosen or entries, entries) if reading is Reading.EXPERTS else 1,
                weights=_count(module, array) // entries if is_weight else 0,
            )
        )
    return found


def compute_dtype(model: nn.Module) -> mx.Dtype:
    """What the model computes in: a quantized one's scales have it too."""
    dtypes: list[mx.Dtype] = [array.dtype for _, array in tree_flatten(model.parameters())]
    return next(dtype for dtype in dtypes if mx.issubdtype(dtype, mx.floating))


def _reading(module: nn.Module, output: nn.Module | None) -> tuple[Reading, int]:
    """How a step reads the module's tensors, and of how many entries they consist."""
    if _is_embedding(module) and module is not output:
        return Reading.ROW, module.weight.shape[0]
    if hasattr(module, "num_experts") and "weight" in module:
        return Reading.EXPERTS, module.num_experts
    return Reading.WHOLE, 1


def _is_embedding(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding | nn.QuantizedEmbedding)


def _output_embedding(modules: dict[str, nn.Module]) -> nn.Module | None:
    """The embedding that is the output projection too: the vocabulary's, where no other matrix
    has as many outputs. Its lookup is a row of what the projection reads anyway."""
    embeddings = [module for module in modules.values() if _is_embedding(module)]
    if not embeddings:
        return None
    vocabulary = max(embeddings, key=lambda module: module.weight.shape[0])
    outputs = {
        module.weight.shape[0]
        for module in modules.values()
        if isinstance(module, nn.Linear | nn.QuantizedLinear)
    }
    return None if vocabulary.weight.shape[0] in outputs else vocabulary


def _count(module: nn.Module, array: Any) -> int:
    """Weights in a tensor; a quantized one packs several into each of its numbers."""
    bits = getattr(module, "bits", None)
    return int(array.nbytes) * 8 // bits if bits else int(array.size)


def _experts_chosen(config: dict[str, Any]) -> int | None:
    for section in (config, config.get("text_config") or {}):
        for key in _CHOSEN_KEYS:
            if isinstance(value := section.get(key), int) and value > 0:
                return value
    return None
