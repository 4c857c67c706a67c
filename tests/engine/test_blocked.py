"""Products cut into slabs are the same products."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.models.blocked import DIRECT_LIMIT, BlockedEmbedding, BlockedLinear, apply, slab_width


@pytest.mark.parametrize("rows", [1, 3, 8, 16, 200])
@pytest.mark.parametrize(
    ("outputs", "inputs"), [(1536, 576), (576, 1536), (49152 // 8, 576), (50, 7)]
)
def test_a_blocked_layer_computes_what_the_plain_one_does(
    rows: int, outputs: int, inputs: int
) -> None:
    model = nn.Sequential(nn.Linear(inputs, outputs), nn.Linear(outputs, inputs, bias=False))
    x = mx.random.normal((rows, 1, inputs))
    expected = model(x)
    apply(model)
    assert [type(layer) for layer in model.layers] == [BlockedLinear, BlockedLinear]
    assert mx.allclose(model(x), expected, rtol=1e-4, atol=1e-4)


def test_a_tied_output_layer_is_blocked_and_still_looks_tokens_up() -> None:
    model = nn.Sequential(nn.Embedding(4096, 512))
    tokens, x = mx.array([[5, 4095]]), mx.random.normal((2, 1, 512))
    looked_up, projected = model(tokens), model.layers[0].as_linear(x)
    apply(model)
    assert type(model.layers[0]) is BlockedEmbedding
    assert mx.array_equal(model(tokens), looked_up)
    assert mx.allclose(model.layers[0].as_linear(x), projected, rtol=1e-4, atol=1e-4)


def test_quantized_and_half_precision_layers_are_left_alone() -> None:
    quantized = nn.Sequential(nn.Linear(64, 64))
    nn.quantize(quantized)
    half = nn.Sequential(nn.Linear(64, 64))
    half.set_dtype(mx.bfloat16)
    for model in (quantized, half):
        kind = type(model.layers[0])
        apply(model)
        assert type(model.layers[0]) is kind


@pytest.mark.parametrize("rows", range(1, 40))
def test_slabs_divide_the_outputs_and_stay_direct(rows: int) -> None:
    width = slab_width(rows, 1536, 576)
    if width is not None:
        assert 1536 % width == 0
        assert rows * width * 576 <= DIRECT_LIMIT


def test_products_that_are_small_or_too_wide_stay_whole() -> None:
    assert slab_width(1, 576, 576) is None
    assert slab_width(1000, 1536, 576) is None
    assert slab_width(1, 4099, 576) is None
