"""What layers are given is read from any family, without a trace left behind."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine.models.errors import ModelError
from engine.models.load import LoadedModel, load
from engine.models.taps import Taps
from tests.tiny_families import tiny_family

FAMILIES = ("llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "lfm2", "mamba2", "gemma3_text")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(tiny_family(tmp_path_factory.mktemp("family"), request.param), request.param)


def test_features_are_the_layers_inputs_and_logits_are_unchanged(model: LoadedModel) -> None:
    tokens = mx.array([[5, 9, 17, 4]])
    layers = list(model.model.layers)
    wanted = model.model(tokens)
    logits, features = Taps(model.model, (0, 1)).read(tokens, None)
    assert mx.array_equal(logits, wanted)
    assert all(a is b for a, b in zip(model.model.layers, layers, strict=True))
    entering, leaving = mx.split(features, 2, axis=-1)
    assert entering.shape == (1, 4, 64)
    # Causal and fresh of any cache: a token's features don't depend on those behind it.
    _, shorter = Taps(model.model, (1,)).read(tokens[:, :2], None)
    assert mx.allclose(shorter, leaving[:, :2], atol=1e-5)
    assert not mx.allclose(entering, leaving, atol=1e-2)


def test_the_last_layer_hands_nothing_on(model: LoadedModel) -> None:
    depth = len(model.model.layers)
    with pytest.raises(ModelError, match=f"of the model's {depth} layers"):
        Taps(model.model, (0, depth))
