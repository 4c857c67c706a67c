"""Products of a few rows with the embedded model's shapes: whole, and in slabs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from engine.hardware import blas

SHAPES = ((576, 576, 60), (192, 576, 60), (1536, 576, 60), (576, 1536, 30), (49152, 576, 1))
"""(outputs, inputs, how many of them one decode step has)."""


def main() -> None:
    blas.prepare()
    import mlx.core as mx

    from engine.models.blocked import project

    print(f"{'rows':>4} {'whole':>10} {'in slabs':>10}   (ms for all of a step's products)")
    for rows in (1, 2, 4, 8, 12, 16, 64):
        whole = slabs = 0.0
        for outputs, inputs, count in SHAPES:
            x, weight = mx.random.normal((rows, inputs)), mx.random.normal((outputs, inputs))
            mx.eval(x, weight)
            pairs = [
                (_timed(lambda x=x, w=weight: x @ w.T), _timed(lambda x=x, w=weight: project(x, w)))
                for _ in range(7)
            ]
            whole += count * min(first for first, _ in pairs)
            slabs += count * min(second for _, second in pairs)
        print(f"{rows:4} {whole:10.1f} {slabs:10.1f}   {whole / slabs:.2f}×")


def _timed(product: Callable[[], Any]) -> float:
    """Milliseconds to build and evaluate one product."""
    import mlx.core as mx

    start = time.perf_counter()
    mx.eval(product())
    return (time.perf_counter() - start) * 1000
