"""How a model is divided among ranks, and whether it can be. MLX-free."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from math import gcd
from typing import TYPE_CHECKING, Any

from engine.models.errors import ModelError
from engine.types import EngineSettings

if TYPE_CHECKING:
    import mlx.nn as nn


class Division(StrEnum):
    """What a rank gets: a part of every layer, or some whole layers."""

    TENSOR = "tensor parallel"
    PIPELINE = "pipeline"


DIVIDED = {
    "num_attention_heads": "attention heads",
    "num_key_value_heads": "key/value heads",
    "intermediate_size": "values between the MLP's layers",
    "moe_intermediate_size": "values between an expert's layers",
    "linear_num_key_heads": "key heads of linear attention",
    "linear_num_value_heads": "value heads of linear attention",
}
"""Entries of config.json of which each rank takes an equal share in tensor parallel."""


def choose(model: nn.Module, config: dict[str, Any], ranks: int, pipeline: bool) -> Division:
    """Tensor parallel where mlx-lm has it for this model, unless asked for a pipeline.

    Reads no weights. Raises ModelError when so many ranks can't share the model.
    """
    family = config["model_type"]
    tensors, layers = hasattr(model, "shard"), pipelined(model)
    if pipeline and not layers:
        instead = f"; without --pipeline {_fitting(config)}" if tensors else ""
        raise ModelError(f"mlx-lm makes no pipeline of {family}{instead}")
    if tensors and not pipeline:
        if odd := _indivisible(config, ranks):
            whole = layers and ranks <= len(model.model.layers)
            instead = ", and --pipeline gives each rank whole layers instead" if whole else ""
            raise ModelError(
                f"{ranks} ranks can't share this {family}: {odd}; {_fitting(config)}{instead}"
            )
        return Division.TENSOR
    if not layers:
        raise ModelError(f"{family} can't be shared by ranks: mlx-lm divides it in no way")
    if (count := len(model.model.layers)) < ranks:
        raise ModelError(f"{ranks} ranks can't share this {family}: it has {count} layers")
    return Division.PIPELINE


def pipelined(model: nn.Module) -> bool:
    return hasattr(getattr(model, "model", None), "pipeline")


def _indivisible(config: dict[str, Any], ranks: int) -> str:
    """What can't be cut into so many equal parts; "" if all can."""
    for what, count in _counts(config):
        if count % ranks:
            return f"its {count} {what} are not divisible by {ranks}"
    return ""


def _fitting(config: dict[str, Any]) -> str:
    """The numbers of ranks of which each would have an equal part of everything."""
    common = gcd(*(count for _, count in _counts(config)))
    numbers = [str(ranks) for ranks in range(2, common + 1) if common % ranks == 0]
    if not numbers:
        return "no number of ranks would do"
    *most, last = numbers
    return f"{', '.join(most)} or {last} ranks would do" if most else f"{last} ranks would do"


def _counts(config: dict[str, Any]) -> list[tuple[str, int]]:
    """What is divided, and how many there are of it."""
    sizes = {**config, **(config.get("text_config") or {})}
    found = [(what, sizes.get(key)) for key, what in DIVIDED.items()]
    return [(what, count) for what, count in found if isinstance(count, int)]


def of_layers(settings: EngineSettings, layers: int) -> EngineSettings:
    """Settings whose sizes in bytes are one layer's, for a rank with so many.

    What rows take is proportional to a rank's layers, and so is what they are held against: all
    ranks decide alike.
    """
    budget, kept = settings.kv_budget, settings.prefix_cache
    return replace(
        settings,
        kv_budget=None if budget is None else budget * layers,
        prefix_cache=None if kept is None else kept * layers,
    )
