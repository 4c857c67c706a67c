"""A model's two ends: the layer that takes tokens in, and the one that scores the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from engine.models.errors import ModelError


@dataclass(frozen=True, slots=True)
class Ends:
    """vocabulary, hidden: sizes. embed: token ids -> [..., hidden], before any scaling the model
    does. project: [..., hidden] -> [..., vocabulary], before any capping it does."""

    vocabulary: int
    hidden: int
    embed: Callable[[mx.array], mx.array]
    project: Callable[[mx.array], mx.array]


def ends(model: nn.Module) -> Ends:
    """Found by their sizes, whatever a model calls them. Raises ModelError where there are none."""
    modules = [module for _, module in model.named_modules()]
    embeddings = [m for m in modules if isinstance(m, nn.Embedding | nn.QuantizedEmbedding)]
    if not embeddings:
        raise ModelError("the model has no embedding that a drafter could share")
    embedding = max(embeddings, key=lambda module: module.weight.shape[0])
    vocabulary = embedding.weight.shape[0]
    outputs = [
        module
        for module in modules
        if isinstance(module, nn.Linear | nn.QuantizedLinear)
        and module.weight.shape[0] == vocabulary
    ]
    quantized = isinstance(embedding, nn.QuantizedEmbedding)
    hidden = embedding.dims if quantized else embedding.weight.shape[1]
    return Ends(vocabulary, hidden, embedding, outputs[-1] if outputs else embedding.as_linear)
