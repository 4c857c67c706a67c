"""What a DSpark checkpoint's config.json says, read from either packing into one description.

DeepSpec writes the target's own config with its fields put in; vLLM's speculators nest the layers'
description. What both copy from the target and never use is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.models.errors import ModelError, one_line

NATIVE = "Qwen3DSparkModel"
"""The architecture DeepSpec names; its layers are Qwen3's whatever the target is."""

MARKOV_KINDS = ("vanilla", "gated", "rnn")
LAYER_KINDS = ("full_attention", "sliding_attention")

T = TypeVar("T", int, float, str, bool, list[Any], dict[str, Any])


@dataclass(frozen=True, slots=True)
class DSparkConfig:
    """One drafter. windows: for each layer, how many tokens back it sees; None for all.

    causal: whether the windowed layers' drafts see only those before them. rope: mlx-lm's
    description of a scaled rotation, None for a plain one. block: positions computed at once.
    first: the one among them whose state predicts the first draft. taps: the layers of the target
    whose inputs the drafter reads. target_depth: the target's layers, 0 where the config leaves
    that out. markov: the head's kind, "" for none. tied: the embedding is the output layer too,
    where the checkpoint has no other.
    """

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    causal: bool
    eps: float
    theta: float
    rope: dict[str, Any] | None
    longest_context: int
    attention_bias: bool
    vocabulary: int
    draft_vocabulary: int
    tied: bool
    block: int
    first: int
    mask_token: int
    taps: tuple[int, ...]
    target_hidden: int
    target_depth: int
    markov: str
    rank: int
    confidence: bool
    confidence_with_markov: bool
    quantization: dict[str, int] | None

    @property
    def longest(self) -> int:
        """Drafts it can make at once."""
        return self.block - self.first

    @property
    def reduced(self) -> bool:
        """Whether it drafts from a part of the vocabulary only."""
        return self.draft_vocabulary < self.vocabulary


def read_config(folder: Path) -> DSparkConfig:
    """The config of a drafter's folder. Raises ModelError, one line that names the field."""
    file = folder / "config.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"can't read the drafter's {file}: {one_line(error)}") from error
    if not isinstance(data, dict):
        raise ModelError(f"can't read the drafter's {file}: not a JSON object")
    config = _speculators(data, file) if _is_speculators(data) else _native(data, file)
    _check(config, file)
    return config


class _Fields:
    """Typed access to one level of a config."""

    def __init__(self, data: Mapping[str, Any], file: Path) -> None:
        self._data = data
        self._file = file

    def need(self, name: str, kind: type[T]) -> T:
        if self._data.get(name) is None:
            raise ModelError(f"the drafter's {self._file} lacks {name}")
        return self.get(name, kind())

    def get(self, name: str, default: T) -> T:
        value = self._data.get(name)
        if value is None:
            return default
        wanted = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(value, wanted) or (isinstance(value, bool) is not (wanted is bool)):
            raise ModelError(f"the drafter's {self._file} has {name} = {value!r}")
        return type(default)(value)


def _is_speculators(data: Mapping[str, Any]) -> bool:
    return "speculators_model_type" in data or "speculators_config" in data


def _native(data: Mapping[str, Any], file: Path) -> DSparkConfig:
    fields = _Fields(data, file)
    architectures = fields.get("architectures", []) or ["no architecture"]
    if NATIVE not in architectures:
        raise ModelError(
            f"{file} is of {architectures[0]}; only drafters of DeepSpec's {NATIVE} and of vLLM's "
            "speculators (dspark) can be loaded"
        )
    return _config(
        fields,
        fields,
        file,
        first=0,
        # DeepSpec counts what layers hand on, -1 being the embedding; here the layer given it.
        taps=[layer + 1 for layer in _whole(fields.need("target_layer_ids", list), file)],
        depth=fields.get("num_target_layers", 0),
        hidden=fields.need("hidden_size", int),
        causal=True,
    )


def _speculators(data: Mapping[str, Any], file: Path) -> DSparkConfig:
    fields = _Fields(data, file)
    algorithm = fields.get("speculators_config", {}).get("algorithm")
    kind = fields.get("speculators_model_type", "") or algorithm
    if kind != "dspark":
        raise ModelError(f"{file} is of a {kind} speculator; only dspark ones can be loaded")
    backbone = _Fields(fields.need("transformer_layer_config", dict), file)
    return _config(
        fields,
        backbone,
        file,
        first=_first(fields),
        # vLLM counts the layers it reads before: the same as here.
        taps=_whole(fields.need("aux_hidden_state_layer_ids", list), file),
        depth=0,
        hidden=fields.get("target_hidden_size", backbone.need("hidden_size", int)),
        causal=not fields.get("sliding_window_non_causal", False),
    )


def _first(fields: _Fields) -> int:
    """A block of n makes n drafts, or one less where the known token's own place makes none."""
    match fields.get("speculators_config", {}).get("proposal_methods"):
        case [{"speculative_tokens": int(count)}, *_]:
            return fields.need("block_size", int) - count
    return 0 if fields.get("sample_from_anchor", False) else 1


def _config(
    fields: _Fields,
    layers: _Fields,
    file: Path,
    *,
    first: int,
    taps: list[int],
    depth: int,
    hidden: int,
    causal: bool,
) -> DSparkConfig:
    """What both packings call by the same names. layers: where the layers are described."""
    vocabulary, heads = layers.need("vocab_size", int), layers.need("num_attention_heads", int)
    rope = layers.get("rope_parameters", {}) or layers.get("rope_scaling", {})
    turning = _Fields(rope, file)
    theta = turning.get("rope_theta", 0.0) or layers.get("rope_theta", 10000.0)
    kind = turning.get("rope_type", turning.get("type", "default"))
    rank = fields.get("markov_rank", 0)
    return DSparkConfig(
        hidden=layers.need("hidden_size", int),
        inner=layers.need("intermediate_size", int),
        heads=heads,
        kv_heads=layers.get("num_key_value_heads", heads),
        head_dim=layers.get("head_dim", layers.need("hidden_size", int) // max(heads, 1)),
        windows=_windows(layers, file),
        causal=causal,
        eps=layers.get("rms_norm_eps", 1e-6),
        theta=theta,
        rope=None if kind == "default" else rope,
        longest_context=layers.get("max_position_embeddings", 0),
        attention_bias=layers.get("attention_bias", False),
        vocabulary=vocabulary,
        draft_vocabulary=fields.get("draft_vocab_size", vocabulary),
        tied=layers.get("tie_word_embeddings", False),
        block=fields.need("block_size", int),
        first=first,
        mask_token=fields.need("mask_token_id", int),
        taps=tuple(taps),
        target_hidden=hidden,
        target_depth=depth,
        markov=fields.get("markov_head_type", "vanilla") if rank else "",
        rank=rank,
        confidence=fields.get("enable_confidence_head", False),
        confidence_with_markov=fields.get("confidence_head_with_markov", False),
        quantization=fields.get("quantization", {}) or None,
    )


def _windows(layers: _Fields, file: Path) -> tuple[int | None, ...]:
    count = layers.need("num_hidden_layers", int)
    kinds = layers.get("layer_types", []) or ["full_attention"] * count
    if len(kinds) != count or not all(kind in LAYER_KINDS for kind in kinds):
        raise ModelError(
            f"the drafter's {file} has {count} layers of the kinds {', '.join(map(str, kinds))}; "
            f"each must be one of {', '.join(LAYER_KINDS)}"
        )
    if "sliding_attention" not in kinds:
        return (None,) * count
    window = layers.need("sliding_window", int)
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _whole(values: list[Any], file: Path) -> list[int]:
    if not all(type(value) is int for value in values):
        raise ModelError(f"the drafter's {file} reads the layers {values}, which are no numbers")
    return values


def _check(config: DSparkConfig, file: Path) -> None:
    """What no drafter can be."""
    wrong = ""
    if min(config.hidden, config.inner, config.heads, config.kv_heads, config.head_dim) < 1:
        wrong = "a size below 1"
    elif config.heads % config.kv_heads:
        wrong = f"{config.heads} heads for {config.kv_heads} K/V heads"
    elif not config.windows:
        wrong = "no layers"
    elif not 0 <= config.first < config.block:
        wrong = f"blocks of {config.block} that make {config.longest} drafts"
    elif not 0 <= config.mask_token < config.vocabulary:
        wrong = f"mask token {config.mask_token} of {config.vocabulary}"
    elif not config.taps or list(config.taps) != sorted(set(config.taps)) or config.taps[0] < 0:
        wrong = "target layers to read that are not in ascending order"
    elif config.target_depth and config.taps[-1] >= config.target_depth:
        wrong = f"the last of {config.target_depth} target layers to read, which hands nothing on"
    elif config.rank and config.markov not in MARKOV_KINDS:
        wrong = f"a Markov head of kind {config.markov}, none of {', '.join(MARKOV_KINDS)}"
    elif config.draft_vocabulary > config.vocabulary:
        wrong = f"{config.draft_vocabulary} drafts out of {config.vocabulary} tokens"
    elif config.confidence and config.confidence_with_markov and not config.rank:
        wrong = "confidence from a Markov head it doesn't have"
    if wrong:
        raise ModelError(f"the drafter's {file} describes {wrong}")
