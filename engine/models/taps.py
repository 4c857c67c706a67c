"""What a model's layers hand on, read while it runs and without changing its code.

During one forward, stand-ins take the places of some layers in the model's own list; each notes
what its layer is given and passes everything through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from engine.models.errors import ModelError, one_line

PROBE = (1, 0, 2, 1)
"""Tokens to try a model with."""

TOLERANCE = 1e-3
"""How far the probe's logits may be off; the stand-ins change nothing, so they should not be."""


class Taps:
    """Reads the inputs of some of a model's layers, which is what the layers before them hand on.

    layers: their indices, ascending; 0 reads the embedding. Raises ModelError where the model has
    no list of layers to read from, or where a try shows that reading doesn't work.
    """

    def __init__(self, model: Any, layers: Sequence[int]) -> None:
        self._model = model
        self._layers = layers
        self._stack = stack = _stack(model)
        if max(layers) >= len(stack):
            raise ModelError(
                f"the drafter reads what layer {max(layers) - 1} hands on, but of the model's "
                f"{len(stack)} layers only those before the last hand something on"
            )
        self._check()

    def read(self, tokens: mx.array, caches: Any) -> tuple[mx.array, mx.array]:
        """(logits [rows, width, vocabulary], features [rows, width, taps · hidden]) of a forward
        over tokens [rows, width]; features lie side by side in the taps' order."""
        inputs: dict[int, mx.array] = {}
        with self._standing_in(inputs):
            logits = self._model(tokens, cache=caches)
        return logits, mx.concatenate([inputs[layer] for layer in self._layers], axis=-1)

    @contextmanager
    def _standing_in(self, inputs: dict[int, mx.array]) -> Iterator[None]:
        own = [self._stack[layer] for layer in self._layers]
        try:
            for layer, module in zip(self._layers, own, strict=True):
                self._stack[layer] = _StandIn(module, layer, inputs)
            yield
        finally:
            for layer, module in zip(self._layers, own, strict=True):
                self._stack[layer] = module

    def _check(self) -> None:
        tokens = mx.array([PROBE])
        plain = self._model(tokens)
        try:
            logits, features = self.read(tokens, None)
            off = float(mx.abs(logits - plain).max())
        except Exception as error:  # whatever a model's code does with a list that isn't its own
            raise ModelError(f"the model's layers can't be read: {one_line(error)}") from error
        if off > TOLERANCE or features.shape[:2] != tokens.shape:
            raise ModelError(f"reading the model's layers changes its logits by {off:.2g}")


def _stack(model: Any) -> list[Any]:
    """The list the model runs its layers from; what it shows as `layers` may be a copy."""
    shown = list(getattr(model, "layers", None) or ())
    if shown:
        for _, module in model.named_modules():
            for value in module.values():
                if isinstance(value, list) and list(map(id, value)) == list(map(id, shown)):
                    return value
    raise ModelError("the model has no list of layers whose states a drafter could read")


class _StandIn:
    """A layer that notes its input. Everything else about it is the layer's."""

    def __init__(self, layer: Any, index: int, inputs: dict[int, mx.array]) -> None:
        self._layer = layer
        self._index = index
        self._inputs = inputs

    def __call__(self, x: mx.array, *args: Any, **options: Any) -> Any:
        self._inputs[self._index] = x
        return self._layer(x, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)
