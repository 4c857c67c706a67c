"""A DSpark drafter's forward in plain numpy, one row at a time, nothing cached.

Written from the published description of the network; shares no code with the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.engine.dspark_checkpoints import Weights


@dataclass(frozen=True)
class Drafted:
    """What one block gave. tokens: the target's ids. logits: of the places drafted from, with the
    Markov head's part. confidence: None without the head."""

    tokens: list[int]
    logits: np.ndarray
    confidence: list[float] | None


class Reference:
    """A checkpoint's weights. first: the place of a block that makes the first draft."""

    def __init__(self, config: dict[str, Any], weights: Weights, first: int = 0) -> None:
        self._config = config
        self._layer = {**config, **config.get("transformer_layer_config", {})}
        self._first = first
        self._w = {
            name: array if name == "d2t" else array.astype(np.float64)
            for name, array in weights.items()
        }

    def draft(self, features: np.ndarray, latest: int, count: int) -> Drafted:
        """Greedy drafts after `latest`, which stands behind the tokens with these features
        [tokens, taps · hidden]."""
        states = self._states(features, latest)
        logits, tokens, sure = [], [], []
        before, carried = latest, np.zeros(self._config["markov_rank"])
        for place in range(self._first, self._first + count):
            state = states[place]
            scores = self._w["lm_head.weight"] @ state
            embedding = np.zeros(0)
            if self._config["markov_rank"]:
                embedding = self._w["markov_head.markov_w1.weight"][before]
                latent, carried = self._latent(embedding, state, carried)
                scores = scores + self._w["markov_head.markov_w2.weight"] @ latent
            if self._config["enable_confidence_head"]:
                seen = embedding if self._config["confidence_head_with_markov"] else np.zeros(0)
                score = self._w["confidence_head.proj.weight"][0] @ np.concatenate([state, seen])
                sure.append(float(_sigmoid(score + self._w["confidence_head.proj.bias"][0])))
            chosen = int(np.argmax(scores))
            before = chosen + int(self._w["d2t"][chosen]) if "d2t" in self._w else chosen
            logits.append(scores)
            tokens.append(before)
        return Drafted(tokens, np.array(logits), sure or None)

    def _latent(
        self, embedding: np.ndarray, state: np.ndarray, carried: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(what the head projects, what it carries on)."""
        kind = self._config["markov_head_type"]
        if kind == "vanilla":
            return embedding, carried
        if kind == "gated":
            gate = self._w["markov_head.gate_proj.weight"] @ np.concatenate([state, embedding])
            return _sigmoid(gate + self._w["markov_head.gate_proj.bias"]) * embedding, carried
        joint = self._w["markov_head.joint_proj.weight"] @ np.concatenate(
            [carried, embedding, state]
        )
        keep, candidate, output = np.split(joint + self._w["markov_head.joint_proj.bias"], 3)
        keep = _sigmoid(keep)
        return np.tanh(output), keep * carried + (1 - keep) * np.tanh(candidate)

    def _states(self, features: np.ndarray, latest: int) -> np.ndarray:
        context = self._norm("hidden_norm", features.astype(np.float64) @ self._w["fc.weight"].T)
        block = [latest] + [self._config["mask_token_id"]] * (self._config["block_size"] - 1)
        x = self._w["embed_tokens.weight"][block]
        for index in range(self._layer["num_hidden_layers"]):
            prefix = f"layers.{index}."
            x = x + self._attention(index, context, self._norm(prefix + "input_layernorm", x))
            y = self._norm(prefix + "post_attention_layernorm", x)
            gate, up = (
                self._linear(prefix + "mlp.gate_proj", y),
                self._linear(prefix + "mlp.up_proj", y),
            )
            x = x + self._linear(prefix + "mlp.down_proj", gate * _sigmoid(gate) * up)
        return self._norm("norm", x)

    def _attention(self, index: int, context: np.ndarray, block: np.ndarray) -> np.ndarray:
        prefix, start = f"layers.{index}.self_attn.", len(context)
        everything = np.concatenate([context, block])
        queries = self._heads(prefix + "q", block, np.arange(start, start + len(block)))
        keys = self._heads(prefix + "k", everything, np.arange(len(everything)))
        values = self._split(self._linear(prefix + "v_proj", everything))
        mixed = np.zeros_like(queries)
        for head in range(queries.shape[1]):
            shared = head * keys.shape[1] // queries.shape[1]
            scores = queries[:, head] @ keys[:, shared].T / np.sqrt(self._layer["head_dim"])
            scores[~self._seen(index, start, len(block))] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            total = weights.sum(axis=-1, keepdims=True)
            if (sinks := self._w.get(prefix + "attention_sink_bias")) is not None:
                total += np.exp(sinks[head] - scores.max(axis=-1, keepdims=True))
            weights /= total
            mixed[:, head] = weights @ values[:, shared]
        return self._linear(prefix + "o_proj", mixed.reshape(len(block), -1))

    def _seen(self, index: int, start: int, width: int) -> np.ndarray:
        """bool [block, everything]: which tokens each place of the block attends to."""
        seen = np.ones((width, start + width), bool)
        kinds = self._layer.get("layer_types")
        if kinds is None or kinds[index] == "full_attention":
            return seen
        for place in range(width):
            for token in range(start + width):
                too_old = token <= start + place - self._layer["sliding_window"]
                ahead = token > start + place
                non_causal = self._config.get("sliding_window_non_causal", False)
                seen[place, token] = not too_old and (not ahead or non_causal)
        return seen

    def _heads(self, name: str, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Normalised and rotated, [tokens, heads, head dim]."""
        heads = self._norm(name + "_norm", self._split(self._linear(name + "_proj", x)))
        half = self._layer["head_dim"] // 2
        rates = self._layer["rope_theta"] ** (-np.arange(half) / half)
        angles = positions[:, None, None] * rates
        first, second = heads[..., :half], heads[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def _split(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), -1, self._layer["head_dim"])

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._w[name + ".weight"].T + self._w.get(name + ".bias", 0.0)

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + self._layer["rms_norm_eps"])
        return x / scale * self._w[name + ".weight"]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
