"""The training itself: a fresh drafter, steps over samples, and its checkpoint."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map_with_path

from engine.cache.rows import RowLengths
from engine.drafters.dspark.config import DSparkConfig, read_config
from engine.drafters.dspark.model import DSparkModel, Vocabulary
from engine.models.ends import ends
from engine.models.load import LoadedModel
from engine.models.taps import Taps
from tests.drafter.blocks import Blocks
from tests.drafter.samples import Sample

ANCHORS = 40
"""Blocks in a step, at most one for each token of the answer."""

FREQUENT = 4096
"""Tokens of the target's vocabulary the drafter knows: byte-level BPE numbers frequent ones
first. Those in the samples come on top."""

DECAY = 4.0
"""Places after which a draft counts for a third as much."""

PEAK = 2e-3
"""The learning rate after its warm-up."""

TABLES = 15
"""How much faster the Markov head learns: a token's row is touched once in many steps."""

WARM_UP = 0.05
"""Share of the training during which the learning rate rises."""


class Trainer:
    """A drafter being trained for `target` on `samples`, written to `folder` by `save`; every step
    takes one sample."""

    def __init__(self, target: LoadedModel, samples: Sequence[Sample], folder: Path) -> None:
        mx.random.seed(0)
        self._random = random.Random(0)
        self._samples = [sample for sample in samples if len(sample.answer) > 1]
        self._ids = _known_tokens(samples, target.config["vocab_size"])
        self._local = {token: index for index, token in enumerate(self._ids)}
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(_config(target, len(self._ids)), indent=2))
        self.model = _fresh(read_config(folder), target, self._ids)
        self._taps = Taps(target.model, self.model.config.taps)
        self._features: dict[int, mx.array] = {}
        self._tables, self._layers = (optim.AdamW(PEAK, weight_decay=0.0) for _ in range(2))
        self._optimizer = optim.MultiOptimizer(
            [self._tables, self._layers], [lambda name, _: name.startswith("markov_head")]
        )
        self._loss = nn.value_and_grad(self.model, self._loss_of)

    def step(self, progress: float) -> tuple[float, float]:
        """(loss, share of blocks whose first draft is right). progress: of the whole training, from
        0 to 1."""
        cosine = 0.5 * (1 + math.cos(math.pi * progress))
        self._layers.learning_rate = PEAK * min(progress / WARM_UP, cosine)
        self._tables.learning_rate = TABLES * PEAK * cosine
        index = self._random.randrange(len(self._samples))
        sample = self._samples[index]
        first, last = len(sample.prompt) - 1, len(sample.tokens) - 2
        count = min(ANCHORS, last - first + 1)
        anchors = sorted(self._random.sample(range(first, last + 1), count))
        if index not in self._features:
            tokens = mx.array([sample.tokens])
            self._features[index] = self._taps.read(tokens, None)[1].astype(mx.float16)
        (loss, right), gradients = self._loss(self._features[index], sample.tokens, anchors)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        self._optimizer.update(self.model, gradients)
        mx.eval(self.model.parameters(), self._optimizer.state, loss, right)
        return float(loss), float(right)

    def save(self) -> None:
        """Write the weights beside the config, in bfloat16."""
        weights = {
            name: array.astype(mx.bfloat16) for name, array in tree_flatten(self.model.parameters())
        }
        if self.model.config.reduced:
            weights["d2t"] = mx.array(self._ids) - mx.arange(len(self._ids))
        mx.save_safetensors(str(self._folder / "model.safetensors"), weights)

    def _loss_of(
        self, features: mx.array, tokens: Sequence[int], anchors: Sequence[int]
    ) -> tuple[mx.array, mx.array]:
        model, block = self.model, self.model.config.block
        rows = RowLengths()
        for anchor in anchors:
            rows.append(anchor)
        context = model.hidden_norm(model.fc(features.astype(mx.float32)))
        contexts = [
            Blocks(rows, *layer.self_attn.keys_and_values(context, 0)) for layer in model.layers
        ]
        latest = mx.array([tokens[anchor] for anchor in anchors])
        states = model.block(latest, rows.offsets, contexts)
        before = mx.array([_along(tokens, anchor, block) for anchor in anchors])
        local = [self._local.get(token, -1) for token in tokens]
        labels = mx.array([_along(local, anchor + 1, block) for anchor in anchors])
        embedded = model.markov.markov_w1(mx.maximum(before, 0))
        logits = model.vocabulary.project(states) + model.markov.markov_w2(embedded)
        wrong = nn.losses.cross_entropy(logits, mx.maximum(labels, 0))
        sure = model.confidence.proj(mx.concatenate([states, embedded], axis=-1))[..., 0]
        agreed = mx.stop_gradient(mx.exp(-wrong))
        doubt = nn.losses.binary_cross_entropy(sure, agreed, reduction="none")
        weights = (labels >= 0) * mx.exp(-mx.arange(block) / DECAY)
        right = mx.mean(mx.argmax(logits[:, 0], axis=-1) == labels[:, 0])
        return mx.sum(weights * (wrong + doubt)) / mx.maximum(mx.sum(weights), 1e-6), right


def _along(tokens: Sequence[int], start: int, count: int) -> list[int]:
    """`count` tokens from `start` on, -1 behind the last."""
    found = list(tokens[start : start + count])
    return found + [-1] * (count - len(found))


def _known_tokens(samples: Sequence[Sample], vocabulary: int) -> list[int]:
    return sorted(
        set(range(min(FREQUENT, vocabulary))).union(*(sample.answer for sample in samples))
    )


def _config(target: LoadedModel, known: int) -> dict[str, Any]:
    """The target's config with the drafter's fields put in, as DeepSpec writes it."""
    theirs = target.config
    depth = theirs["num_hidden_layers"]
    return {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        **{key: theirs[key] for key in ("hidden_size", "vocab_size", "rms_norm_eps")},
        **{key: theirs[key] for key in ("num_attention_heads", "num_key_value_heads")},
        "head_dim": theirs["hidden_size"] // theirs["num_attention_heads"],
        "intermediate_size": 768,
        "num_hidden_layers": 1,
        "num_target_layers": depth,
        "rope_theta": theirs["rope_theta"],
        "max_position_embeddings": theirs["max_position_embeddings"],
        "attention_bias": False,
        "tie_word_embeddings": False,
        "draft_vocab_size": known,
        "block_size": 5,
        "mask_token_id": 0,
        "target_layer_ids": sorted({depth // 3, 2 * depth // 3, depth - 2}),
        "markov_rank": 32,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
        "num_anchors": ANCHORS,
    }


def _fresh(config: DSparkConfig, target: LoadedModel, ids: Sequence[int]) -> DSparkModel:
    """An untrained drafter that takes tokens in as the target does, and whose output layer is the
    target's rows for the tokens it knows; both stay as they are. The last norm starts as the
    target's, for which that layer was made."""
    model = DSparkModel(config, own_embedding=False, own_output=True)

    def started(_: str, array: mx.array) -> mx.array:
        return array if array.ndim < 2 else array.shape[-1] ** -0.5 * mx.random.normal(array.shape)

    model.update(tree_map_with_path(started, model.parameters()))
    own = ends(target.model)
    model.norm.weight = target.model.model.norm.weight
    model.lm_head.weight = own.project(mx.eye(own.hidden))[:, mx.array(ids)].T
    model.lm_head.freeze()
    model.vocabulary = Vocabulary(own.embed, model.lm_head, mx.array(ids))
    mx.eval(model.parameters())
    return model
