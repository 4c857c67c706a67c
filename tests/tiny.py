"""Tiny random checkpoints in the real on-disk format, so tests load them as they load any model.

The weights are random but loud: greedy answers vary from token to token, depend on the whole
context and keep clear gaps between the best tokens, so two code paths that should agree can be
compared token for token.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
EOS_ID = SPECIAL_TOKENS.index("<|im_end|>")

CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_CORPUS = (
    "Several panes share one engine, and the engine reads their prompts a little at a time.",
    "A request waits in the queue, takes a slot, reads its prompt and then writes its answer.",
    "When one answer ends the slot is free at once, and the next request starts in the middle.",
)


def tiny_llama(
    folder: Path,
    *,
    layers: int = 2,
    vocab: int = 320,
    seed: int = 0,
    ends: bool = True,
    chat_template: str | None = CHATML,
    **overrides: Any,
) -> Path:
    """A random fp32 llama in `folder` (made if missing), which is also what is returned.

    vocab: token ids, from 259 (256 bytes and three special tokens) to about 370. ends: False
    makes the end-of-turn token all but impossible, for tests that count tokens. overrides: entries
    of config.json, e.g. `max_position_embeddings=64`; the weights follow them.
    """
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
        "bos_token_id": SPECIAL_TOKENS.index("<|im_start|>"),
        "eos_token_id": EOS_ID,
        "torch_dtype": "float32",
        **overrides,
    }
    write_folder(folder, config, chat_template)
    weights = _weights(config, np.random.default_rng(seed))
    if not ends:
        weights["lm_head.weight"][EOS_ID] = 0.0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_folder(folder: Path, config: dict[str, Any], chat_template: str | None = CHATML) -> None:
    """All of a model folder but its weights: config.json and a tokenizer for its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "model_max_length": config["max_position_embeddings"],
    }
    if chat_template is not None:
        tokenizer_config["chat_template"] = chat_template
    _byte_level_bpe(config["vocab_size"]).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (folder / "config.json").write_text(json.dumps(config))


def tiny_gguf(path: Path, **metadata: Any) -> Path:
    """A tiny llama as llama.cpp stores it, in the file `path`; its folder form lies beside it.

    metadata: GGUF keys that replace or join the usual ones, their dots written as two underscores.
    """
    import mlx.core as mx
    from safetensors.numpy import load_file

    folder = tiny_llama(path.with_suffix(""))
    config = json.loads((folder / "config.json").read_text())
    bpe = json.loads((folder / "tokenizer.json").read_text())["model"]
    weights = {
        _gguf_name(name): mx.array(_interleaved(name, tensor, config))
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    tokens = sorted(bpe["vocab"], key=lambda token: bpe["vocab"][token])
    numbers = {
        "llama.block_count": config["num_hidden_layers"],
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.context_length": config["max_position_embeddings"],
        "tokenizer.ggml.eos_token_id": EOS_ID,
    }
    values = {
        "general.architecture": "llama",
        "llama.attention.layer_norm_rms_epsilon": mx.array(config["rms_norm_eps"]),
        "tokenizer.chat_template": CHATML,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": mx.array([3 if t in SPECIAL_TOKENS else 1 for t in tokens]),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in bpe["merges"]],
        **{key: mx.array(number, mx.uint32) for key, number in numbers.items()},
        **{key.replace("__", "."): value for key, value in metadata.items()},
    }
    mx.save_gguf(str(path), weights, values)
    return path


def _gguf_name(name: str) -> str:
    renamed = name.removeprefix("model.").replace("layers.", "blk.")
    for ours, theirs in (
        ("embed_tokens", "token_embd"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("_proj", ""),
    ):
        renamed = renamed.replace(ours, theirs)
    return "output_norm.weight" if renamed == "norm.weight" else renamed


def _interleaved(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """q and k rows in llama.cpp's order: the two halves of each head's rotation as pairs."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    count = next((count for part, count in heads.items() if part in name), None)
    if count is None:
        return tensor
    halves = tensor.reshape(count, 2, -1, tensor.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(tensor.shape)


def _byte_level_bpe(vocab: int) -> Tokenizer:
    """Any text round-trips: all 256 bytes are tokens, merges fill the rest of `vocab`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    if (reached := tokenizer.get_vocab_size()) != vocab:
        raise ValueError(f"vocab={vocab} is out of reach: the corpus gives {reached}")
    return tokenizer


def _weights(config: dict[str, Any], random: np.random.Generator) -> dict[str, np.ndarray]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads

    def matrix(outputs: int, inputs: int, gain: float) -> np.ndarray:
        values = random.standard_normal((outputs, inputs)) * gain / np.sqrt(inputs)
        return values.astype(np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden, gain=8.0),
        "model.norm.weight": np.ones(hidden, np.float32),
    }
    for layer in range(config["num_hidden_layers"]):
        shapes = {
            "self_attn.q_proj": (heads * head_dim, hidden),
            "self_attn.k_proj": (kv_heads * head_dim, hidden),
            "self_attn.v_proj": (kv_heads * head_dim, hidden),
            "self_attn.o_proj": (hidden, heads * head_dim),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        for name, (outputs, inputs) in shapes.items():
            weights[f"model.layers.{layer}.{name}.weight"] = matrix(outputs, inputs, gain=2.0)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{norm}.weight"] = np.ones(hidden, np.float32)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(config["vocab_size"], hidden, gain=4.0)
    return weights
