"""Measure what verify forwards cost on this machine, once per model and machine."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import platformdirs

from engine.cache import BatchCache, CachePlan
from engine.drafters.cost import VerifyCosts

WIDTHS = (1, 2, 3, 4, 6, 9, 17)
LARGEST = 64
"""Tokens in the largest forward that is measured; beyond, the line goes on."""

DEPTH = 64
"""Tokens the rows hold meanwhile."""

REPEATS = 3
STEADY = 1.15
"""How much longer than the quickest forward the next may take."""

IDS = 97
"""Token ids in the rows: any will do, as long as experts see different ones."""

Notify = Callable[[int, int], None]
Now = Callable[[], float]
"""A clock, in seconds."""


def verify_costs(plan: CachePlan, slots: int, key: str, notify: Notify) -> VerifyCosts:
    """Measured now, or earlier under the same key. notify: told how much of it is done."""
    file = _file(plan, slots, key)
    if (known := _load(file)) is not None:
        return known
    found = measure(plan, slots, notify)
    if found.steady:
        _save(found.costs, file)
    return found.costs


@dataclass(slots=True)
class Measured:
    """steady: whether forwards that should take equally long did; else something else kept the
    machine busy, and the times are good enough to begin with but not to keep."""

    costs: VerifyCosts
    steady: bool = True


def measure(
    plan: CachePlan,
    slots: int,
    notify: Notify = lambda *_: None,
    now: Now = time.perf_counter,
) -> Measured:
    """Every width at 1, 2, 4, ... rows up to all slots."""
    counts = [*_doubling(slots), slots]
    costs = VerifyCosts()
    found = Measured(costs)
    for done, rows in enumerate(counts):
        notify(done, len(counts))
        cache = _filled(plan, rows)
        widths = [width for width in WIDTHS if width == 1 or rows * width <= LARGEST]
        times = _times(plan, cache, widths, now)
        costs.plain[rows] = plain = min(times[1])
        costs.ratios[rows] = _rising({width: min(times[width]) / plain for width in widths})
        found.steady &= sorted(times[1])[1] <= STEADY * plain
    notify(len(counts), len(counts))
    return found


def _filled(plan: CachePlan, rows: int) -> BatchCache:
    cache = plan.new()
    assert isinstance(cache, BatchCache)
    for _ in range(rows):
        cache.append_empty()
    plan.forward(_tokens(rows, DEPTH), cache)
    mx.eval(cache.arrays())
    cache.rows.advance([DEPTH] * rows)
    return cache


def _times(
    plan: CachePlan, cache: BatchCache, widths: list[int], now: Now
) -> dict[int, list[float]]:
    """Milliseconds by width, several of each, the widths taking turns."""
    before = cache.snapshot()
    times: dict[int, list[float]] = {width: [] for width in widths}
    for repeat in range(REPEATS + 1):
        for width in widths:
            started = now()
            mx.eval(plan.forward(_tokens(len(cache.rows), width), cache).argmax(axis=-1))
            spent = (now() - started) * 1000
            cache.restore(before)
            if repeat:  # the first round warms up
                times[width].append(spent)
    return times


def _tokens(rows: int, width: int) -> mx.array:
    return (mx.arange(rows * width, dtype=mx.uint32) * 31 % IDS).reshape(rows, width)


def _doubling(limit: int) -> Iterator[int]:
    rows = 1
    while rows < limit:
        yield rows
        rows *= 2


def _rising(curve: dict[int, float]) -> dict[int, float]:
    """Costs without what can't be: that fewer tokens take longer than more, or less than one.
    Whatever else the machine did only ever added time."""
    rising: dict[int, float] = {}
    lowest = float("inf")
    for width in sorted(curve, reverse=True):
        lowest = min(lowest, curve[width])
        rising[width] = max(lowest, 1.0)
    return rising


def _file(plan: CachePlan, slots: int, key: str) -> Path:
    """One for everything the times depend on."""
    drafter = plan.drafter.name if plan.drafter else ""
    facts = (key, slots, plan.kv_bits, drafter, version("mlx"), mx.device_info(), os.cpu_count())
    digest = hashlib.sha256(repr((facts, WIDTHS)).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("dspark-tui") / "verify" / f"{digest}.json"


def _load(file: Path) -> VerifyCosts | None:
    try:
        found = json.loads(file.read_text())
        ratios = {
            int(rows): {int(width): float(cost) for width, cost in curve.items()}
            for rows, curve in found["ratios"].items()
        }
        plain = {int(rows): float(cost) for rows, cost in found["plain"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return VerifyCosts(ratios, plain)


def _save(costs: VerifyCosts, file: Path) -> None:
    """Best effort: without the file it is measured again."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps({"ratios": costs.ratios, "plain": costs.plain}))
        scratch.replace(file)
    except OSError:
        return
