"""Shared rotations are MLX's own rotary embedding."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.models.rotary import SharedRoPE, apply


@pytest.mark.parametrize("traditional", [True, False])
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_same_numbers_as_the_plain_module(traditional: bool, width: int, rows: int) -> None:
    plain = nn.RoPE(16, traditional=traditional, base=5000.0, scale=0.5)
    model = nn.Sequential(plain)
    apply(model)
    (shared,) = model.layers
    assert type(shared) is SharedRoPE
    # Heads transposed as models hand them over, at offsets that change from call to call.
    for start in (0, 7, 300):
        x = mx.random.normal((rows, width, 2, 16)).transpose(0, 2, 1, 3)
        offset = start if rows == 1 else mx.array([start, 2 * start, 5])
        for _ in range(2):
            assert mx.allclose(shared(x, offset=offset), plain(x, offset=offset), atol=1e-4)


def test_layers_of_one_kind_share_a_table_and_other_kinds_do_not() -> None:
    model = nn.Sequential(nn.RoPE(16), nn.RoPE(16), nn.RoPE(16, base=100.0))
    apply(model)
    first, second, third = model.layers
    assert first._rotations is second._rotations
    assert first._rotations is not third._rotations
    assert model.parameters() == {"layers": [{}, {}, {}]}


def test_other_precisions_and_partial_rotation_fall_back() -> None:
    plain = nn.RoPE(8)
    model = nn.Sequential(plain)
    apply(model)
    wide = mx.random.normal((1, 2, 3, 16))
    assert mx.array_equal(model.layers[0](wide, offset=4), plain(wide, offset=4))
    half = mx.random.normal((1, 2, 3, 8)).astype(mx.bfloat16)
    assert mx.array_equal(model.layers[0](half, offset=4), plain(half, offset=4))
