"""Tiny random checkpoints of many model families, as mlx-lm writes converted models to disk.

Small, but with the parts that make their caches differ: recurrent layers beside attention, windows
shorter than a test's rows, latent attention, experts, several caches in one layer.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map_with_path

from tests.tiny import EOS_ID, write_folder

VOCABULARY = 320
WINDOW = 8
"""Tokens a sliding-window layer sees: few, so that short rows go far beyond it."""

_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}
_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
}
_LATENT = {
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": _EXPERTS,
    "qwen3_next": {
        **_EXPERTS,
        **_DELTA,
        "shared_expert_intermediate_size": 32,
        "partial_rotary_factor": 0.25,
    },
    "qwen3_5": {
        **_DELTA,
        "rope_parameters": {"type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
    },
    "lfm2": {
        "num_hidden_layers": 3,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_multiple_of": 32,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "layer_types": ["conv", "full_attention", "conv"],
    },
    "mamba2": {
        "num_heads": 8,
        "head_dim": 16,
        "state_size": 16,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 2,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_limit": [0.001, 100.0],
        "time_step_rank": "auto",
    },
    "mamba": {
        "state_size": 8,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
    },
    "gemma3_text": {"sliding_window": WINDOW, "sliding_window_pattern": 2},
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "deepseek_v3": _LATENT,
    "deepseek_v32": {**_LATENT, "index_head_dim": 16, "index_n_heads": 2, "index_topk": 16},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "nemotron_h": {
        "hybrid_override_pattern": ["M", "*", "-"],
        "attention_bias": False,
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "mamba_proj_bias": False,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 2,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
    },
    "falcon_h1": {
        "mamba_d_conv": 4,
        "mamba_d_head": 16,
        "mamba_d_ssm": 128,
        "mamba_d_state": 16,
        "mamba_n_groups": 2,
        "mamba_n_heads": 8,
    },
    "llama4": {
        "num_hidden_layers": 4,
        "attention_bias": False,
        "attention_chunk_size": WINDOW,
        "interleave_moe_layer_step": 2,
        "intermediate_size_mlp": 96,
        "num_experts_per_tok": 1,
        "num_local_experts": 4,
        "rope_scaling": None,
        "use_qk_norm": True,
    },
    "internlm3": {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
}
"""What each family adds to or changes of the common shape."""

_NESTED = ("llama4", "qwen3_5")
"""Families whose configs keep all that in a text_config, beside one for vision."""


def tiny_family(folder: Path, family: str, *, seed: int = 0, **overrides: Any) -> Path:
    """A random fp32 model of a family in `folder` (made if missing), which is what is returned.

    It practically never ends its turn. overrides: entries of config.json.
    """
    text = {**_SHAPE, **CONFIGS[family], **overrides}
    config = {"model_type": family, "eos_token_id": EOS_ID, **text}
    if family in _NESTED:
        config["text_config"] = {"model_type": f"{family}_text", **text}
    write_folder(folder, config)
    library = importlib.import_module(f"mlx_lm.models.{family}")
    mx.random.seed(seed)
    model = library.Model(library.ModelArgs.from_dict(config))
    weights = dict(tree_flatten(tree_map_with_path(_loud, model.parameters())))
    for name in weights:
        if name.endswith(("lm_head.weight", "embed_tokens.weight", "embeddings.weight")):
            weights[name][EOS_ID] = 0.0
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


def _loud(name: str, values: mx.array) -> mx.array:
    """Weights that make answers vary from token to token and keep gaps between the best tokens."""
    if values.ndim < 2:
        return values + 0.1 * mx.random.normal(values.shape)
    if "embed" in name:
        return 8.0 / values.shape[-1] ** 0.5 * mx.random.normal(values.shape)
    return 4.0 * values
