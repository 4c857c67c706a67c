"""A llama-family GGUF file as an ordinary mlx-lm model folder, its quantization kept."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.events import Progress
from engine.models.errors import ModelError, one_line
from engine.models.gguf_tokenizer import Vocabulary, build_tokenizer, tokenizer_config
from engine.models.prepare import ProgressSink

GROUP_SIZE = 32
"""Weights per scale in every GGUF quantization that MLX keeps."""

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FACTORS = "rope_freqs.weight"


class Metadata:
    """A GGUF file's keys with plain Python values; those of the architecture without prefix."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self.architecture = str(values.get("general.architecture", "none stated"))

    def get(self, key: str, default: Any = None) -> Any:
        value = self._values.get(key, default)
        return value.tolist() if isinstance(value, mx.array) else value

    def llama(self, key: str, default: Any = None) -> Any:
        """An architecture key. Raises ModelError when it is missing and has no default."""
        value = self.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise ModelError(f"the GGUF file is incomplete: it has no {self.architecture}.{key}")
        return value


def convert(source: Path, folder: Path, progress: ProgressSink) -> None:
    """Write the model into `folder`, which exists and is empty.

    Raises ModelError for anything but a whole llama-family file; OSError when writing fails.
    """
    progress(Progress("convert", f"reading {source.name}"))
    tensors, metadata = _read(source)
    if metadata.architecture != "llama" or metadata.llama("expert_count", 0):
        kind = "mixture-of-experts" if metadata.architecture == "llama" else metadata.architecture
        raise ModelError(
            f"{source.name} holds a {kind} model; only dense llama-family GGUF files can be "
            "converted: use the same model in MLX format"
        )
    factors = tensors.pop(_ROPE_FACTORS, None)
    weights = {_weight_name(name): tensor for name, tensor in tensors.items()}
    config = _config(metadata, weights)
    config |= _rope(metadata, config["head_dim"], factors)
    progress(Progress("convert", "writing the tokenizer"))
    _write_tokenizer(metadata, folder, config)
    progress(Progress("convert", "writing the weights"))
    _write_weights(folder / "model.safetensors", weights)
    _write_json(folder / "config.json", config)


def _read(source: Path) -> tuple[dict[str, mx.array], Metadata]:
    try:
        loaded: Any = mx.load(str(source), format="gguf", return_metadata=True)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"can't read {source} as GGUF: {one_line(error)}") from error
    tensors, values = loaded
    return tensors, Metadata(values)


def _weight_name(name: str) -> str:
    """GGUF's "blk.3.attn_q.weight" as mlx-lm's "model.layers.3.self_attn.q_proj.weight"."""
    match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|scales|biases|bias)", name)
    if match is None or match[2] not in _NAMES:
        raise ModelError(f"the GGUF file has a tensor that no plain llama has: {name}")
    layer, tensor, part = match.groups()
    where = "" if layer is None else f"model.layers.{layer}."
    return f"{where}{_NAMES[tensor]}.{part}"


def _config(metadata: Metadata, weights: dict[str, mx.array]) -> dict[str, Any]:
    if "model.embed_tokens.weight" not in weights:
        raise ModelError("the GGUF file is incomplete: it has no token embedding")
    heads = metadata.llama("attention.head_count")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": metadata.llama("embedding_length"),
        "intermediate_size": metadata.llama("feed_forward_length"),
        "num_hidden_layers": metadata.llama("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.llama("attention.head_count_kv", heads),
        "head_dim": metadata.llama(
            "attention.key_length", metadata.llama("embedding_length") // heads
        ),
        "rms_norm_eps": metadata.llama("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": metadata.llama("context_length"),
        "vocab_size": weights["model.embed_tokens.weight"].shape[0],
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "attention_bias": "model.layers.0.self_attn.q_proj.bias" in weights,
    }
    if bits := _bits(weights):
        usual = max(bits.values(), key=list(bits.values()).count)
        others = {
            module: {"group_size": GROUP_SIZE, "bits": width}
            for module, width in bits.items()
            if width != usual
        }
        config["quantization"] = {"group_size": GROUP_SIZE, "bits": usual, **others}
    return config


def _bits(weights: dict[str, mx.array]) -> dict[str, int]:
    """Bits per weight of each quantized module: as many 32-bit words hold a group of 32."""
    return {
        name.removesuffix(".scales"): weights[name.replace(".scales", ".weight")].shape[-1]
        // scales.shape[-1]
        for name, scales in weights.items()
        if name.endswith(".scales")
    }


def _rope(metadata: Metadata, head_dim: int, factors: mx.array | None) -> dict[str, Any]:
    """The position encoding. llama.cpp stores q and k rows in the order of interleaved pairs."""
    if metadata.llama("rope.dimension_count", head_dim) != head_dim:
        raise ModelError("RoPE over a part of each head can't be taken over from GGUF")
    rope: dict[str, Any] = {
        "rope_theta": metadata.llama("rope.freq_base", 10000.0),
        "rope_traditional": True,
    }
    kind = metadata.llama("rope.scaling.type", "none")
    if kind == "linear":
        rope["rope_scaling"] = {"type": "linear", "factor": metadata.llama("rope.scaling.factor")}
    elif kind != "none":
        raise ModelError(f"RoPE scaling of type {kind} can't be taken over from GGUF")
    if factors is not None:
        # llama.cpp keeps only the resulting divisors of Llama 3's scaling; every model that has
        # one uses these bounds, and its factor is the divisor of the slowest frequency.
        rope["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": mx.max(factors).item(),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
    return rope


def _write_tokenizer(metadata: Metadata, folder: Path, config: dict[str, Any]) -> None:
    vocabulary = Vocabulary.read(metadata.get)
    build_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    context = config["max_position_embeddings"]
    _write_json(folder / "tokenizer_config.json", tokenizer_config(vocabulary, context))
    config["bos_token_id"] = vocabulary.bos
    config["eos_token_id"] = list(vocabulary.ends)
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": vocabulary.bos, "eos_token_id": list(vocabulary.ends)},
    )


def _write_weights(path: Path, weights: dict[str, mx.array]) -> None:
    try:
        mx.save_safetensors(str(path), weights, metadata={"format": "mlx"})
    except RuntimeError as error:  # MLX gives no errno; in a folder just written to it is this one
        raise OSError(errno.ENOSPC, one_line(error)) from error


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False), encoding="utf-8")
