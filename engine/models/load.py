"""A model folder in memory: weights at a stated precision, tokenizer, and what is true of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.utils import dequantize_model, get_total_parameters, load_model

from engine.events import Capability, ModelInfo, Progress
from engine.hardware import blas, device
from engine.models import blocked, kv, rotary
from engine.models.capabilities import Feature, stated
from engine.models.errors import ModelError, one_line
from engine.models.prepare import ProgressSink
from engine.models.tokenizer import Tokenizer
from engine.sizes import readable

PRECISIONS = {"fp32": mx.float32, "fp16": mx.float16, "bf16": mx.bfloat16}
"""What `--precision` may name besides "auto" and "stored"."""

AUTO_SHARE = 0.6
"""fp32 is chosen by itself while it takes at most this share of the available memory: the rest
is for the rows' keys and values, activations and the other programs."""

DEFAULT_CONTEXT = 8192
"""Tokens, for models that state no limit."""

_CONTEXT_KEYS = (
    "max_position_embeddings",
    "max_sequence_length",
    "max_seq_len",
    "n_positions",
    "n_ctx",
    "seq_length",
)
_SHORT_NAMES = {dtype: name for name, dtype in PRECISIONS.items()}


Agreed = Callable[[mx.array], mx.array]
"""The tokens picked in a step as all who run the model take them."""


def own(tokens: mx.array) -> mx.array:
    """Agreement of one."""
    return tokens


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. The thread that loaded it is the one that may run it and drop it;
    tokenizer and info may be used from any thread. kv_bits: of quantized K and V, None for none.
    agreed: what every step's tokens go through."""

    model: nn.Module
    tokenizer: Tokenizer
    info: ModelInfo
    kv_bits: int | None
    config: dict[str, Any]
    path: Path
    capabilities: tuple[Capability, ...]
    agreed: Agreed = own

    @property
    def shared(self) -> bool:
        """Whether other processes run it along with this one."""
        return self.agreed is not own


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision to run at and the reason. dtype None: as stored."""

    dtype: mx.Dtype | None
    why: str


class Sharding(Protocol):
    """Divides a model among processes. memories: how many separate ones hold it."""

    @property
    def memories(self) -> int: ...

    def apply(self, model: nn.Module, config: dict[str, Any], precision: str) -> None:
        """Leave this rank's share of the weights, which are still on disk. precision: the one
        chosen, by its name. Raises ModelError."""

    def agreed(self, tokens: mx.array) -> mx.array:
        """Rank 0's tokens, on every rank."""


def load(
    path: Path,
    name: str,
    precision: str = "auto",
    progress: ProgressSink = lambda _: None,
    kv_bits: int | None = None,
    sharding: Sharding | None = None,
) -> LoadedModel:
    """Load a model folder on the calling thread, its weights evaluated when this returns.

    name: becomes `info.id`. precision: "auto", "stored" or one of PRECISIONS. kv_bits: 4 or 8 to
    quantize K and V where the model allows it. With `sharding`, bytes in `info` are this rank's.
    Raises ModelError.
    """
    config = _read_config(path)
    progress(Progress("load", f"{name}: tokenizer"))
    tokenizer = Tokenizer.load(path, config)
    model, config = _build(path)
    chosen = _choose(model, precision, sharding.memories if sharding else 1)
    if chosen.dtype is not None:
        _convert(model, chosen.dtype)
    parameters = get_total_parameters(model)
    if sharding is not None:
        sharding.apply(model, config, _SHORT_NAMES[chosen.dtype] if chosen.dtype else "stored")
    _evaluate(model, name, progress)
    multiplier = adapt(model)
    quantized = kv.quantization(model, kv_bits)
    info = ModelInfo(
        id=name,
        family=config["model_type"],
        parameters=parameters,
        context=_context(config),
        precision=_precision_name(model),
        weight_bytes=_weight_bytes(model),
        kv_bytes_per_token=_kv_bytes_per_token(model, quantized.bits),
    )
    capabilities = (
        stated(Feature.PRECISION, precision, info.precision, chosen.why),
        multiplier.capability(),
        quantized.capability(),
    )
    agreed = sharding.agreed if sharding else own
    return LoadedModel(model, tokenizer, info, quantized.bits, config, path, capabilities, agreed)


def adapt(model: nn.Module) -> blas.BlasReport:
    """Have a model with evaluated weights compute in the ways that are quick on this machine; who
    multiplies its matrices."""
    if device.is_cpu():
        rotary.apply(model)
    multiplier = blas.check()
    if multiplier.path is not None and multiplier.optimised:
        blocked.apply(model)
    return multiplier


def _read_config(path: Path) -> dict[str, Any]:
    """config.json, after everything that can be told before building anything has been."""
    if not (path / "config.json").is_file():
        raise ModelError(f"{path} is no model folder: it has no config.json")
    config = _read_json(path / "config.json")
    if not isinstance(config.get("model_type"), str):
        raise ModelError(f"{path / 'config.json'} names no model_type; is this a language model?")
    if "model_file" in config:
        raise ModelError(
            f"{path} needs its own Python code ({config['model_file']}), which is never run; "
            "use a model whose architecture mlx-lm has"
        )
    wanted = {"model.safetensors"}
    index = path / "model.safetensors.index.json"
    if index.is_file():
        wanted = set(_read_json(index).get("weight_map", {}).values())
    elif any(path.glob("model*.safetensors")):
        wanted = set()
    if missing := sorted(file for file in wanted if not (path / file).is_file()):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(f"{path} lacks weights: {missing[0]}{more}; fetch or copy it again")
    return config


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"can't read {path}: {one_line(error)}") from error
    if not isinstance(data, dict):
        raise ModelError(f"can't read {path}: not a JSON object")
    return data


def _build(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The model with its weights still on disk, and the config as mlx-lm completes it."""
    try:
        model, config = load_model(path, lazy=True)
    except Exception as error:  # whatever a checkpoint's contents make a library do
        reason = one_line(error)
        if isinstance(error, KeyError):
            reason = f"{reason} is missing"
        raise ModelError(f"can't load {path}: {reason}") from error
    return model, config


def _choose(model: nn.Module, requested: str, memories: int) -> Precision:
    """The rule: on a CPU fp32 while it fits, elsewhere as stored; a request overrides it. All
    memories are taken to be equal."""
    stored, available = _weight_bytes(model), device.free_bytes() * memories
    if requested == "auto":
        precision = _automatic(model, stored, available)
    elif requested == "stored":
        precision = Precision(None, "asked for")
    elif requested in PRECISIONS:
        precision = Precision(PRECISIONS[requested], "asked for")
    else:
        raise ModelError(
            f'precision "{requested}" is unknown; use auto, stored, {", ".join(PRECISIONS)}'
        )
    needed = stored if precision.dtype is None else _bytes_at(model, precision.dtype)
    if needed > available:
        raise ModelError(
            f"the model needs {readable(needed)} of memory and {readable(available)} are "
            "available; use a smaller or more quantized model"
        )
    return precision


def _automatic(model: nn.Module, stored: int, available: int) -> Precision:
    if not device.is_cpu():
        return Precision(None, "a GPU computes with the weights as they are stored")
    needed = _bytes_at(model, mx.float32)
    if needed == stored and _precision_name(model) == "fp32":
        return Precision(None, "stored so")
    if needed <= AUTO_SHARE * available:
        return Precision(
            mx.float32,
            f"on a CPU only fp32 gains from batching, and it takes {readable(needed)} "
            f"of {readable(available)} available",
        )
    return Precision(
        None,
        f"fp32 would take {readable(needed)}, more than {AUTO_SHARE:.0%} of {readable(available)} "
        "available; rows gain little from batching as stored",
    )


def _convert(model: nn.Module, dtype: mx.Dtype) -> None:
    """Set up the weights' conversion; nothing is computed yet."""
    # Scales first: dequantizing in half precision would round every weight once more.
    model.set_dtype(dtype)
    dequantize_model(model)
    model.set_dtype(dtype)


def _evaluate(model: nn.Module, name: str, progress: ProgressSink) -> None:
    """Read and convert tensor by tensor, so that never more than one exists in both forms."""
    tensors = tree_flatten(model.parameters())
    for done, (_, tensor) in enumerate(tensors):
        progress(Progress("load", name, done, len(tensors), "tensors"))
        try:
            mx.eval(tensor)
        except RuntimeError as error:
            raise ModelError(f"can't read the weights of {name}: {one_line(error)}") from error
    mx.clear_cache()
    progress(Progress("load", name, len(tensors), len(tensors), "tensors"))


def _weight_bytes(model: nn.Module) -> int:
    return sum(int(tensor.nbytes) for _, tensor in tree_flatten(model.parameters()))


def _bytes_at(model: nn.Module, dtype: mx.Dtype) -> int:
    return int(get_total_parameters(model) * dtype.size)


def _precision_name(model: nn.Module) -> str:
    """ "4-bit" and the like where any layer is quantized, else the widest-spread dtype's name."""
    bits = {module.bits for _, module in model.named_modules() if hasattr(module, "bits")}
    if bits:
        return f"{'/'.join(str(b) for b in sorted(bits))}-bit"
    sizes: dict[mx.Dtype, int] = {}
    for _, tensor in tree_flatten(model.parameters()):
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.size
    dtype = max(sizes, key=lambda dtype: sizes[dtype])
    return _SHORT_NAMES.get(dtype, str(dtype).removeprefix("mlx.core."))


def _context(config: dict[str, Any]) -> int:
    """Tokens the model can attend to, from whichever name its config gives that number."""
    for section in (config, config.get("text_config") or {}):
        for key in _CONTEXT_KEYS:
            if isinstance(value := section.get(key), int) and value > 0:
                return value
    return DEFAULT_CONTEXT


def _kv_bytes_per_token(model: nn.Module, kv_bits: int | None) -> int:
    try:
        return kv.bytes_per_token(model, kv_bits)
    except Exception as error:  # weights that load and yet don't fit together
        raise ModelError(f"the model can't read a token: {one_line(error)}") from error
