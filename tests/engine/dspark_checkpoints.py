"""Random DSpark checkpoints as DeepSpec and vLLM's speculators write them to disk.

Names and shapes are written down here a second time, on purpose: the loader derives its own from
its modules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

Weights = dict[str, np.ndarray]

NATIVE: dict[str, Any] = {
    "architectures": ["Qwen3DSparkModel"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_target_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 320,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "block_size": 5,
    "mask_token_id": 3,
    "target_layer_ids": [-1, 0, 2],
    "markov_rank": 16,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
    "num_anchors": 512,
    "partial_rotary_factor": 0.25,  # the target's, which no drafter uses
}
"""For `tiny_llama(layers=4)`."""


def speculators(**changes: Any) -> dict[str, Any]:
    """The same drafter's config as vLLM's speculators nest it; changes to its outer level."""
    ours = ("block_size", "mask_token_id", "markov_rank", "markov_head_type")
    heads = ("enable_confidence_head", "confidence_head_with_markov")
    left_out = ("architectures", "target_layer_ids", "num_target_layers", "num_anchors")
    outer = {key: NATIVE[key] for key in (*ours, *heads)}
    inner = {key: value for key, value in NATIVE.items() if key not in (*outer, *left_out)}
    return {
        "architectures": ["DSparkSpeculator"],
        "speculators_model_type": "dspark",
        "speculators_config": {
            "algorithm": "dspark",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
            "verifier": {"name_or_path": "somewhere/tiny"},
        },
        "transformer_layer_config": inner,
        "aux_hidden_state_layer_ids": [0, 1, 3],
        "draft_vocab_size": NATIVE["vocab_size"],
        **outer,
        **changes,
    }


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of a whole checkpoint of this config, d2t included."""
    layer = {**config, **config.get("transformer_layer_config", {})}
    hidden, inner, size = layer["hidden_size"], layer["intermediate_size"], layer["head_dim"]
    queries, keys = size * layer["num_attention_heads"], size * layer["num_key_value_heads"]
    taps = config.get("target_layer_ids") or config["aux_hidden_state_layer_ids"]
    vocab, rank = layer["vocab_size"], config["markov_rank"]
    draft = config.get("draft_vocab_size", vocab)
    found: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (vocab, hidden),
        "lm_head.weight": (draft, hidden),
        "fc.weight": (hidden, len(taps) * config.get("target_hidden_size", hidden)),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    for index in range(layer["num_hidden_layers"]):
        found |= {
            f"layers.{index}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (hidden,),
                "post_attention_layernorm": (hidden,),
                "self_attn.q_proj": (queries, hidden),
                "self_attn.k_proj": (keys, hidden),
                "self_attn.v_proj": (keys, hidden),
                "self_attn.o_proj": (hidden, queries),
                "self_attn.q_norm": (size,),
                "self_attn.k_norm": (size,),
                "mlp.gate_proj": (inner, hidden),
                "mlp.up_proj": (inner, hidden),
                "mlp.down_proj": (hidden, inner),
            }.items()
        }
    if layer["attention_bias"]:
        for index in range(layer["num_hidden_layers"]):
            prefix = f"layers.{index}.self_attn."
            for name, length in (("q", queries), ("k", keys), ("v", keys), ("o", hidden)):
                found[f"{prefix}{name}_proj.bias"] = (length,)
    if rank:
        found["markov_head.markov_w1.weight"] = (vocab, rank)
        found["markov_head.markov_w2.weight"] = (draft, rank)
    if rank and config["markov_head_type"] == "gated":
        found["markov_head.gate_proj.weight"] = (rank, hidden + rank)
        found["markov_head.gate_proj.bias"] = (rank,)
    if rank and config["markov_head_type"] == "rnn":
        found["markov_head.joint_proj.weight"] = (3 * rank, 2 * rank + hidden)
        found["markov_head.joint_proj.bias"] = (3 * rank,)
    if config["enable_confidence_head"]:
        extra = rank if config["confidence_head_with_markov"] else 0
        found["confidence_head.proj.weight"] = (1, hidden + extra)
        found["confidence_head.proj.bias"] = (1,)
    if draft < vocab:
        found["d2t"] = (draft,)
    return found


def random_weights(config: dict[str, Any], seed: int = 0) -> Weights:
    """Loud weights for every tensor; the reduced vocabulary is spread over the target's."""
    random = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in shapes(config).items():
        if name == "d2t":
            vocab = {**config, **config.get("transformer_layer_config", {})}["vocab_size"]
            ids = np.sort(random.choice(vocab, shape[0], replace=False))
            weights[name] = (ids - np.arange(shape[0])).astype(np.int64)
            continue
        values = random.standard_normal(shape)
        if "norm" in name:
            values = 1 + 0.2 * values
        elif name.startswith(("embed", "markov_head.markov_w1")):
            values = values * 0.7
        elif not name.endswith("bias"):
            values = values * 2.0 / np.sqrt(shape[-1])
        weights[name] = values.astype(np.float32)
    return weights


def write(folder: Path, config: dict[str, Any], weights: Weights) -> Path:
    """A drafter's folder, which is what is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
