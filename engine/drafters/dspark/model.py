"""The drafter's network: a few layers that look at the target's states and at a block of unknowns.

Its tree of modules carries the checkpoint's names. Every layer's K and V of what the target has
read come from one feature per token, the same for all layers; a block of places that starts at the
latest token then attends to those and to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.activations import swiglu
from mlx_lm.models.rope_utils import initialize_rope

from engine.cache.attention import SlotKVCache
from engine.cache.rows import RowLengths
from engine.drafters.dspark.config import DSparkConfig
from engine.drafters.dspark.heads import MARKOV_HEADS, ConfidenceHead, MarkovHead

Offset = int | mx.array
"""Where a row's first token stands: an int for all rows, or int32 [rows]."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How tokens become states and states logits, by the drafter's own layers or the target's.

    embed: token ids of the target -> [..., hidden]. project: [..., hidden] -> logits [..., draft
    vocabulary]. to_target: uint32 [draft vocabulary], the target's id of each token of the
    drafter's; None where they are the same.
    """

    embed: Callable[[mx.array], mx.array]
    project: Callable[[mx.array], mx.array]
    to_target: mx.array | None


class DSparkModel(nn.Module):
    """A drafter's weights and what is computed with them.

    own_embedding, own_output: whether the checkpoint has these layers of its own. sinks: whether
    its heads may attend to nothing. `vocabulary` is for the loader to set.
    """

    config: DSparkConfig
    vocabulary: Vocabulary

    def __init__(
        self, config: DSparkConfig, own_embedding: bool, own_output: bool, sinks: bool = False
    ) -> None:
        """Raises ValueError for a kind of rotation that mlx-lm doesn't have."""
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.taps) * config.target_hidden, config.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(config.hidden, config.eps)
        self.layers = [Layer(config, window, sinks) for window in config.windows]
        self.norm = nn.RMSNorm(config.hidden, config.eps)
        if own_embedding:
            self.embed_tokens = nn.Embedding(config.vocabulary, config.hidden)
        if own_output:
            self.lm_head = nn.Linear(config.hidden, config.draft_vocabulary, bias=False)
        if config.markov:
            self.markov_head = MARKOV_HEADS[config.markov](config)
        if config.confidence:
            self.confidence_head = ConfidenceHead(config)

    @property
    def markov(self) -> MarkovHead | None:
        return cast("MarkovHead | None", self.get("markov_head"))

    @property
    def confidence(self) -> ConfidenceHead | None:
        return cast("ConfidenceHead | None", self.get("confidence_head"))

    def contexts(self, rows: RowLengths) -> list[SlotKVCache]:
        """Empty K and V for each layer."""
        return [SlotKVCache(rows) for _ in self.layers]

    def remember(self, features: mx.array, contexts: Sequence[SlotKVCache]) -> None:
        """Write the layers' K and V of tokens the target reads, behind the rows' lengths.

        features: [rows, width, taps · target hidden].
        """
        features = self.hidden_norm(self.fc(features))
        for layer, context in zip(self.layers, contexts, strict=True):
            offset = context.rows.offset
            context.update_and_fetch(*layer.self_attn.keys_and_values(features, offset))

    def block(
        self, latest: mx.array, position: Offset, contexts: Sequence[SlotKVCache]
    ) -> mx.array:
        """States [rows, block, hidden] of the places from each row's latest token on.

        latest: [rows], the tokens; position: theirs. The block's K and V are scratch behind the
        rows' lengths.
        """
        config, rows = self.config, contexts[0].rows
        unknown = mx.full((latest.shape[0], config.block - 1), config.mask_token, latest.dtype)
        x = self.vocabulary.embed(mx.concatenate([latest[:, None], unknown], axis=1))
        masks = {window: _mask(rows, config, window) for window in set(config.windows)}
        for layer, context in zip(self.layers, contexts, strict=True):
            x = layer(x, position, context, masks[layer.window])
        return cast(mx.array, self.norm(x))


class Layer(nn.Module):
    """One layer, shaped as Qwen3's. window: tokens back it sees, None for all."""

    def __init__(self, config: DSparkConfig, window: int | None, sinks: bool) -> None:
        super().__init__()
        self.self_attn = Attention(config, sinks)
        self.mlp = MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden, config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, config.eps)
        self.window = window

    def __call__(
        self, x: mx.array, position: Offset, context: SlotKVCache, mask: mx.array | None
    ) -> mx.array:
        x = x + self.self_attn(self.input_layernorm(x), position, context, mask)
        return cast(mx.array, x + self.mlp(self.post_attention_layernorm(x)))


class Attention(nn.Module):
    """A block's attention to the context and to itself, with normalised queries and keys."""

    def __init__(self, config: DSparkConfig, sinks: bool) -> None:
        super().__init__()
        bias, size = config.attention_bias, config.head_dim
        self.q_proj = nn.Linear(config.hidden, config.heads * size, bias=bias)
        self.k_proj = nn.Linear(config.hidden, config.kv_heads * size, bias=bias)
        self.v_proj = nn.Linear(config.hidden, config.kv_heads * size, bias=bias)
        self.o_proj = nn.Linear(config.heads * size, config.hidden, bias=bias)
        self.q_norm = nn.RMSNorm(size, config.eps)
        self.k_norm = nn.RMSNorm(size, config.eps)
        if sinks:
            self.attention_sink_bias = mx.zeros(config.heads)
        self.rope = initialize_rope(
            size, config.theta, False, config.rope, config.longest_context or None
        )
        self._size = size

    def keys_and_values(self, x: mx.array, position: Offset) -> tuple[mx.array, mx.array]:
        """K and V [rows, kv heads, width, head dim] of [rows, width, hidden]."""
        keys = self.k_norm(self._heads(self.k_proj(x)))
        return self.rope(keys, offset=position), self._heads(self.v_proj(x))

    def __call__(
        self, x: mx.array, position: Offset, context: SlotKVCache, mask: mx.array | None
    ) -> mx.array:
        queries = self.q_norm(self._heads(self.q_proj(x)))
        keys, values = context.update_and_fetch(*self.keys_and_values(x, position))
        mixed = mx.fast.scaled_dot_product_attention(
            self.rope(queries, offset=position),
            keys,
            values,
            scale=self._size**-0.5,
            mask=mask,
            sinks=self.get("attention_sink_bias"),
        )
        rows, _, width, _ = mixed.shape
        return cast(mx.array, self.o_proj(mixed.transpose(0, 2, 1, 3).reshape(rows, width, -1)))

    def _heads(self, x: mx.array) -> mx.array:
        rows, width, _ = x.shape
        return x.reshape(rows, width, -1, self._size).transpose(0, 2, 1, 3)


class MLP(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.inner, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.inner, bias=False)
        self.down_proj = nn.Linear(config.inner, config.hidden, bias=False)

    def __call__(self, x: mx.array) -> Any:
        return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))


def _mask(rows: RowLengths, config: DSparkConfig, window: int | None) -> mx.array | None:
    """Which keys a block's places see: bool [rows, 1, block or 1, keys], None for all.

    Of its context a row sees all it has, of its block all places; a window hides what lies further
    back and, in a causal drafter, the places behind one.
    """
    width = config.block
    if window is None and len(rows) == 1:
        return None
    start = rows.offsets[:, None, None, None]
    key = mx.arange(rows.longest + width)
    mask = key < start + width
    if window is None:
        return mask
    query = start + mx.arange(width)[:, None]
    mask = mask & (key > query - window)
    return mask & (key <= query) if config.causal else mask
