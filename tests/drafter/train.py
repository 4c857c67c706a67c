"""`python -m tests.drafter.train FOLDER`: a small DSpark drafter for the embedded model.

Generates the target's answers to 210 prompts first (kept beside FOLDER), trains on the places in
them, and writes a checkpoint as DeepSpec does: half an hour on two busy cores. Answers are greedy,
so what a draft has to agree with is the very next token: the loss is its cross-entropy, weighted
down along a block, and the confidence head's against how likely the drafter found the right token.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from engine.hardware import blas

if TYPE_CHECKING:
    from tests.drafter.trainer import Trainer

REPORT = 25


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.drafter.train", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=15.0, help="of training alone")
    arguments = parser.parse_args()
    blas.prepare()
    from engine.models import catalog
    from engine.models.load import load
    from tests.drafter.samples import training
    from tests.drafter.trainer import Trainer

    model = load(catalog.ensure(catalog.resolve(None)), "SmolLM2")
    samples = training(model, arguments.folder.with_suffix(".samples.jsonl"))
    trainer = Trainer(model, samples, arguments.folder)
    _run(trainer, 60 * arguments.minutes)
    trainer.save()
    print(f"written to {arguments.folder}")


def _run(trainer: Trainer, seconds: float) -> None:
    started = time.monotonic()
    losses: list[float] = []
    hits: list[float] = []
    while (taken := time.monotonic() - started) < seconds:
        loss, right = trainer.step(taken / seconds)
        losses.append(loss)
        hits.append(right)
        if len(losses) % REPORT == 0:
            recent, first = fmean(losses[-REPORT:]), fmean(hits[-REPORT:])
            print(
                f"{taken:.0f} s, step {len(losses)}: loss {recent:.2f}, "
                f"first draft right {first:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
