"""What was asked of the engine and what it does: one statement for each feature, always all.

Whoever decides about a feature states it, with the reason. What nobody states is off, or is done
the same way for every model and listed here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum

from engine.events import Capability


class Feature(StrEnum):
    """In the order people see them."""

    BATCHING = "batching"
    PRECISION = "precision"
    BLAS = "blas"
    SPECULATION = "speculation"
    PREFIX = "prefix reuse"
    QUANTIZED_KV = "quantized KV"
    PENALTIES = "penalties"
    LOGPROBS = "logprobs"
    DISTRIBUTED = "distributed"


ALWAYS = {
    Feature.PENALTIES: ("per request", "in the batch", "each row has its own; none leaves it"),
    Feature.LOGPROBS: ("per request", "in the batch", "up to 20 alternatives, where asked for"),
}


def stated(
    feature: Feature, requested: str, effective: str, why: str, *, refused: bool = False
) -> Capability:
    """A statement as of now. why: one line. refused: it was asked for and is not done."""
    return Capability(time.monotonic(), feature, requested, effective, why, refused)


def complete(statements: Iterable[Capability]) -> tuple[Capability, ...]:
    """The latest statement of each feature, in the features' order."""
    off = ("off", "off", "not asked for")
    known = {feature: stated(feature, *ALWAYS.get(feature, off)) for feature in Feature}
    known |= {Feature(statement.feature): statement for statement in statements}
    return tuple(known.values())
