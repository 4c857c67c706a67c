"""`python -m tests.families [NAME …]`: what the engine does for each model family, by running it.

A tiny random model of each family, in fp32, answers requests that join and leave while others run
and while looked-up drafts are checked.
Prints the README's table; every "no" carries its reason.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.hardware import blas

if TYPE_CHECKING:
    from tests.schedules import Job

SLOTS = 4
COLUMNS = ("family", "its layers keep", "batched", "mid-flight", "exact", "prefix", "speculation")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.families", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    warnings.simplefilter("ignore")  # the tokenizer library's, about configs it doesn't use
    blas.prepare()
    from tests.tiny_families import CONFIGS

    for cells in (COLUMNS, ["---"] * len(COLUMNS)):
        print(f"| {' | '.join(cells)} |")
    for name in names or CONFIGS:
        print(f"| {' | '.join(row(name))} |", flush=True)


def row(name: str) -> Iterator[str]:
    """The cells of one family."""
    from engine.bus import Clock, EventBus
    from engine.events import Admitted, Step
    from engine.models.capabilities import Feature
    from engine.models.kv import leaves, own_caches
    from engine.models.load import load
    from engine.types import Speculate
    from tests.schedules import check, play
    from tests.tiny_families import tiny_family

    with tempfile.TemporaryDirectory() as folder:
        model = load(tiny_family(Path(folder), name), name)
    bus, schedule = EventBus(Clock(), SLOTS, queue_limit=9), _schedule()
    subscription = bus.subscribe(lambda: None)
    subscription.drain()
    rows = play(model, schedule, bus, SLOTS, speculate=Speculate.NGRAM, max_draft=4)
    events = subscription.drain()
    said = {capability.feature: capability for capability in bus.snapshot().capabilities}
    yield name
    yield ", ".join(sorted({type(leaf).__name__ for leaf in leaves(own_caches(model.model))}))
    widest = max(event.width for event in events if isinstance(event, Step))
    yield f"{widest} rows" if widest > 1 else f"no: {said[Feature.BATCHING].why}"
    joined = any(event.mid_flight for event in events if isinstance(event, Admitted))
    yield "yes" if joined else "no: one slot"
    try:
        check(model, schedule, rows)
    except AssertionError:
        yield "no"
    else:
        yield "yes"
    for feature in (Feature.PREFIX, Feature.SPECULATION):
        stated = said[feature]
        yield f"no: {stated.why}" if stated.effective == "off" else stated.effective


def _schedule() -> list[Job]:
    """Rows that join in twos and threes, end at different times, and one that is cancelled."""
    from engine.types import SamplingParams
    from tests.schedules import Job

    greedy, sampled = SamplingParams(), SamplingParams(temperature=1.0, seed=7)
    return [
        Job(tuple(range(5, 45)), 40, greedy, 0, None),
        Job((9, 8, 7), 30, sampled, 1, None),
        Job(tuple(range(60, 71)), 8, greedy, 12, None),
        Job((3,), 20, sampled, 14, None),
        Job((4, 4, 4, 4, 4), 30, greedy, 16, 10),
    ]


if __name__ == "__main__":
    main()
