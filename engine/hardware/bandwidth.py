"""What this machine's memory and arithmetic reach, by the operations the engine itself runs.

Reading is measured by products of one vector with a matrix, which is how decoding reads weights, or
by column sums where those are faster. One stream of operations is what the engine uses; several at
a time show what the memory could give. Call everything on the thread that may use MLX, the BLAS
prepared before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import mlx.core as mx

from engine.hardware import device
from engine.hardware.roofline import BandwidthPoint, Machine
from engine.models.blocked import project

MEGABYTE = 2**20
SMALLEST = MEGABYTE
GROWTH = 4
"""From one working set to the next, up to the model's own size."""

LINE = 4096
"""Numbers in a row of the probed matrix."""

BLOCK = 64
"""Rows it has a multiple of."""

TRIES = 5
SECONDS = 0.04
"""A try repeats its operation until it should last this long."""

MOST_STREAMS = 8
PRODUCT = 512
"""Rows and columns of the product on a CPU; a GPU needs a larger one to be busy."""

Reader = Callable[[mx.array, mx.Stream], mx.array]
Tell = Callable[[int, int], None]
"""Hears how many of how many working sets are measured. It may raise to end the measurement."""


def measure(model_bytes: int, available: int, dtype: mx.Dtype, tell: Tell) -> Machine:
    """Measure bandwidth from cache size to twice the model, and products in `dtype`.

    available: bytes of memory the probes may take; larger working sets are left out.
    """
    sizes = list(working_sets(model_bytes, available))
    streams = [mx.new_stream(mx.default_device()) for _ in range(_stream_count())]
    reader = _fastest_reader(min(sizes[-1], 64 * MEGABYTE), streams[0])
    points = []
    for done, size in enumerate(sizes):
        tell(done, len(sizes))
        points.append(_point(size, reader, streams))
        mx.clear_cache()
    tell(len(sizes), len(sizes))
    return Machine(tuple(points), _multiplications(dtype))


def working_sets(model_bytes: int, available: int) -> Iterator[int]:
    """Sizes in bytes: by GROWTH up to the model, the model itself, and twice that."""
    yield SMALLEST
    size = SMALLEST * GROWTH
    while size < min(model_bytes, available):
        yield size
        size *= GROWTH
    for size in (model_bytes, 2 * model_bytes):
        if SMALLEST < size <= available:
            yield size


def _point(size: int, reader: Reader, streams: list[mx.Stream]) -> BandwidthPoint:
    matrix = _matrix(size)
    rates = {count: _read_rate(matrix, reader, streams[:count]) for count in {1, len(streams)}}
    best = max(rates, key=lambda count: rates[count])
    return BandwidthPoint(matrix.nbytes, rates[1], rates[best], best)


def _read_rate(matrix: mx.array, reader: Reader, streams: list[mx.Stream]) -> float:
    """Bytes a second with the matrix divided among the streams."""
    blocks = matrix.shape[0] // BLOCK
    cuts = [blocks * part // len(streams) * BLOCK for part in range(1, len(streams))]
    shares = [share for share in mx.split(matrix, cuts) if share.size]
    mx.eval(shares)

    def read(times: int) -> None:
        pairs = list(zip(shares, streams, strict=False))
        mx.eval([reader(share, stream) for _ in range(times) for share, stream in pairs])

    return matrix.nbytes / _seconds(read)


def _seconds(operation: Callable[[int], None]) -> float:
    """The shortest time of one `operation`, which is told how often to repeat itself."""
    start = time.perf_counter()
    operation(1)
    times = max(1, round(SECONDS / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        operation(times)
        best = min(best, (time.perf_counter() - start) / times)
    return best


def _fastest_reader(size: int, stream: mx.Stream) -> Reader:
    matrix = _matrix(size)
    return max(_READERS, key=lambda reader: _read_rate(matrix, reader, [stream]))


def _slab_products(matrix: mx.array, stream: mx.Stream) -> mx.array:
    with mx.stream(stream):
        return project(mx.ones((1, LINE)), matrix)


def _product(matrix: mx.array, stream: mx.Stream) -> mx.array:
    with mx.stream(stream):
        return mx.ones((1, LINE)) @ matrix.T


def _column_sums(matrix: mx.array, stream: mx.Stream) -> mx.array:
    return mx.sum(matrix, axis=0, stream=stream)


_READERS: tuple[Reader, ...] = (_slab_products, _product, _column_sums)


def _matrix(size: int) -> mx.array:
    """fp32 [rows, LINE] of about `size` bytes, its pages touched."""
    rows = max(1, round(size / (4 * LINE * BLOCK))) * BLOCK
    matrix = mx.ones((rows, LINE))
    mx.eval(matrix)
    return matrix


def _multiplications(dtype: mx.Dtype) -> float:
    size = PRODUCT if device.is_cpu() else 8 * PRODUCT
    matrix = mx.ones((size, size), dtype)
    mx.eval(matrix)
    return size**3 / _seconds(lambda times: mx.eval([matrix @ matrix for _ in range(times)]))


def _stream_count() -> int:
    """Streams worth trying at a time: a GPU's operations fill it by themselves."""
    return min(os.cpu_count() or 1, MOST_STREAMS) if device.is_cpu() else 1
