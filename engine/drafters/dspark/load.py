"""A drafter's checkpoint in memory, fitted to the target it drafts for.

Strict: a tensor that is missing, unexpected or of another shape is refused by name. A drafter that
loads and computes something else than it was trained for would only show as poor acceptance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.drafters.dspark.config import DSparkConfig, read_config
from engine.drafters.dspark.model import DSparkModel, Vocabulary
from engine.models.ends import Ends, ends
from engine.models.errors import ModelError, one_line
from engine.models.load import LoadedModel, adapt
from engine.models.weights import compute_dtype
from engine.speculate import DRAFTER_BITS

GROUP_SIZE = 64
"""Weights that share a scale when a drafter is quantized at load."""

_TO_TARGET = "d2t"
_IGNORED = re.compile(r"t2d|verifier_norm\.weight|verifier_lm_head\.weight|.*rotary_emb\.inv_freq")
"""What training leaves in a checkpoint and drafting doesn't use."""


def load_model(folder: Path, target: LoadedModel, bits: int | None = None) -> DSparkModel:
    """The drafter in `folder` for `target`, its weights evaluated, on the calling thread.

    It computes in the target's type. bits: 4 or 8 to quantize its matrices, None to keep them as
    they are. Raises ModelError, one line that names both sides of what doesn't fit.
    """
    if bits not in (None, *DRAFTER_BITS):
        raise ModelError(f"a drafter can be quantized to 4 or 8 bits, not {bits}")
    config = read_config(folder)
    vocabulary_ends = ends(target.model)
    _check_target(config, folder.name, target, vocabulary_ends)
    weights = _read(folder)
    to_target = _to_target(weights.pop(_TO_TARGET, None), config, folder.name)
    model = _build(config, weights, folder.name)
    model.load_weights(list(weights.items()))
    model.set_dtype(compute_dtype(target.model))
    if bits is not None:
        nn.quantize(model, GROUP_SIZE, bits, class_predicate=_quantizable)
    try:
        mx.eval(model.parameters())
    except RuntimeError as error:
        raise ModelError(f"can't read the drafter {folder.name}: {one_line(error)}") from error
    adapt(model)
    model.vocabulary = _vocabulary(model, vocabulary_ends, to_target, folder.name)
    return model


def _check_target(config: DSparkConfig, name: str, target: LoadedModel, own: Ends) -> None:
    """Refuse a drafter made for another model, as far as sizes tell."""
    depth = len(target.model.layers)
    made_for = (config.vocabulary, config.target_hidden, config.target_depth or depth)
    if made_for != (own.vocabulary, own.hidden, depth):
        layers = f" and {config.target_depth} layers" if config.target_depth else ""
        raise ModelError(
            f"the drafter {name} is for a model with {config.vocabulary} tokens, hidden size "
            f"{config.target_hidden}{layers}; {target.info.id} has {own.vocabulary} tokens, "
            f"hidden size {own.hidden} and {depth} layers"
        )


def _read(folder: Path) -> dict[str, mx.array]:
    """All tensors that count, by the names DeepSpec gives them; still on disk."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(f"the drafter {folder} has no model*.safetensors")
    weights: dict[str, mx.array] = {}
    for file in files:
        try:
            loaded = cast("dict[str, mx.array]", mx.load(str(file)))
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"can't read the drafter's {file}: {one_line(error)}") from error
        named = {name.removeprefix("model."): array for name, array in loaded.items()}
        weights |= {name: a for name, a in named.items() if not _IGNORED.fullmatch(name)}
    return weights


def _to_target(offsets: mx.array | None, config: DSparkConfig, name: str) -> mx.array | None:
    """The target's id of each of the drafter's tokens, from their distances to it."""
    size = config.draft_vocabulary
    if offsets is None:
        if config.reduced:
            raise ModelError(
                f"the drafter {name} drafts from {size} of {config.vocabulary} tokens and lacks "
                f"{_TO_TARGET} [{size}], which says which"
            )
        return None
    if not config.reduced:
        offsets_of = f"{_TO_TARGET} {list(offsets.shape)}"
        raise ModelError(f"the drafter {name} has {offsets_of} and drafts from all {size} tokens")
    if offsets.shape != (size,) or not mx.issubdtype(offsets.dtype, mx.integer):
        found = f"{_shown(offsets)} of {offsets.dtype}"
        raise ModelError(f"the drafter {name}: {_TO_TARGET} is {found}, not integers [{size}]")
    ids = mx.arange(size) + offsets.astype(mx.int32)
    if int(ids.min()) < 0 or int(ids.max()) >= config.vocabulary:
        raise ModelError(
            f"the drafter {name}: {_TO_TARGET} leads to tokens {int(ids.min())} to "
            f"{int(ids.max())}, and there are {config.vocabulary}"
        )
    return ids.astype(mx.uint32)


def _build(config: DSparkConfig, weights: dict[str, mx.array], name: str) -> DSparkModel:
    """The module tree these tensors belong to, every name and shape compared."""
    try:
        model = DSparkModel(
            config,
            own_embedding="embed_tokens.weight" in weights,
            own_output="lm_head.weight" in weights,
            sinks=any(key.endswith("attention_sink_bias") for key in weights),
        )
    except (ValueError, KeyError) as error:
        raise ModelError(f"the drafter {name}: {one_line(error)}") from error
    if packed := config.quantization:
        try:
            nn.quantize(
                model,
                packed["group_size"],
                packed["bits"],
                class_predicate=lambda path, _: f"{path}.scales" in weights,
            )
        except (ValueError, KeyError) as error:
            reason = one_line(error)
            raise ModelError(f"the drafter {name} is quantized as {packed}: {reason}") from error
    wanted = dict(tree_flatten(model.parameters()))
    if missing := [key for key in wanted if key not in weights]:
        raise ModelError(f"the drafter {name} lacks {_listed(missing, wanted)}")
    if extra := [key for key in weights if key not in wanted]:
        raise ModelError(
            f"the drafter {name} has what its config doesn't: {_listed(extra, weights)}"
        )
    for key, array in wanted.items():
        if weights[key].shape != array.shape:
            raise ModelError(
                f"the drafter {name}: {key} is {_shown(weights[key])} in the checkpoint and "
                f"{_shown(array)} by its config"
            )
    return model


def _quantizable(_: str, module: nn.Module) -> bool:
    if not isinstance(module, nn.Linear | nn.Embedding):
        return False
    return bool(module.weight.shape[-1] % GROUP_SIZE == 0)


def _vocabulary(
    model: DSparkModel, target: Ends, to_target: mx.array | None, name: str
) -> Vocabulary:
    """The checkpoint's own layers where it has them, else the target's."""
    config, embedding, output = model.config, model.get("embed_tokens"), model.get("lm_head")
    if (embedding is None or output is None) and config.hidden != target.hidden:
        raise ModelError(
            f"the drafter {name} has no embed_tokens or lm_head of its own, and the model's are "
            f"for hidden size {target.hidden}, not {config.hidden}"
        )
    if output is None and config.reduced:
        wanted = f"lm_head.weight [{config.draft_vocabulary}, {config.hidden}]"
        raise ModelError(f"the drafter {name} drafts from a part of the tokens and lacks {wanted}")
    project: Callable[[mx.array], mx.array] = target.project
    if output is not None:
        project = output
    elif embedding is not None and config.tied:
        project = embedding.as_linear
    return Vocabulary(target.embed if embedding is None else embedding, project, to_target)


def _listed(names: list[str], arrays: dict[str, Any]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]} {_shown(arrays[names[0]])}{more}"


def _shown(array: mx.array) -> str:
    return str(list(array.shape))
