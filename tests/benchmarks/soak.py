"""2,000 short requests at random, a third of them cancelled at random moments, by model family.

Prompts share beginnings, memory is short, so that rows wait, go back to the queue and reuse what
others read. Every answer is compared with the one its request gets alone.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from pathlib import Path
from unittest import mock

import engine.cache.attention
import engine.scheduler
from engine.models.load import load
from engine.types import FinishReason
from tests.soak import Outcome, soak
from tests.tiny_families import tiny_family

REQUESTS = int(os.environ.get("BENCH_REQUESTS", "2000"))
FAMILIES = ("llama", "qwen3_moe", "gemma3_text", "gpt_oss", "lfm2", "qwen3_next", "mamba2", "jamba")
ROUNDS = 10


def main() -> None:
    warnings.simplefilter("ignore")
    small = (
        mock.patch.object(engine.cache.attention, "LENGTH_STEP", 8),
        mock.patch.object(engine.scheduler, "GROWTH", 8),
        mock.patch.object(engine.scheduler, "LOOKAHEAD", 2),
    )
    wrong = 0
    with small[0], small[1], small[2], tempfile.TemporaryDirectory() as folder:
        for number, family in enumerate(FAMILIES):
            model = load(tiny_family(Path(folder) / family, family), family)
            started = time.perf_counter()
            outcome = soak(model, REQUESTS // len(FAMILIES), seed=number, rounds=ROUNDS)
            print(
                f"{family:12} {_told(outcome)}; {time.perf_counter() - started:.0f} s", flush=True
            )
            wrong += len(outcome.wrong)
    print(f"{wrong} wrong answers")


def _told(outcome: Outcome) -> str:
    """In one line; growth is from the second of the rounds to the last."""
    cancelled = outcome.ended[FinishReason.CANCELLED]
    memory = outcome.memory[-1] - outcome.memory[1]
    objects = outcome.objects[-1] - outcome.objects[1]
    return (
        f"{outcome.ended.total() - cancelled} finished, {cancelled} cancelled, "
        f"{len(outcome.wrong)} wrong, "
        f"{outcome.preempted} times put back, {outcome.reused} tokens reused, "
        f"{outcome.busy} slots stuck, memory {memory / 1024:+.1f} kB, objects {objects:+d}"
    )
