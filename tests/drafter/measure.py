"""`python -m tests.drafter.measure FOLDER`: how often the embedded model picks a drafter's tokens.

Prompts on topics that no drafter was trained on, one row, greedy, drafts as long as the drafter
makes them; the same with random weights in its place, which is chance.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.hardware import blas

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

TOKENS = 60


@dataclass(frozen=True)
class Figures:
    """Of all rows together. forwards: steps that gave a row tokens."""

    tokens: int
    forwards: int
    drafted: int

    def __str__(self) -> str:
        accepted = self.tokens - self.forwards
        return (
            f"{accepted} of {self.drafted} drafted tokens accepted "
            f"({accepted / max(self.drafted, 1):.0%}), "
            f"{self.tokens / self.forwards:.2f} tokens per forward"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.drafter.measure", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=10)
    arguments = parser.parse_args()
    blas.prepare()
    from engine.models import catalog
    from engine.models.load import load

    model = load(catalog.ensure(catalog.resolve(None)), "SmolLM2")
    print(f"trained: {measure(model, arguments.folder, arguments.prompts)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        chance = _shuffled(arguments.folder, Path(folder))
        print(f"chance:  {measure(model, chance, arguments.prompts)}", flush=True)


def measure(model: LoadedModel, drafter: Path, count: int) -> Figures:
    """Answer `count` prompts with this drafter; the first answer is checked to be the target's."""
    from engine.bus import Clock, EventBus
    from engine.drafters.dspark.config import read_config
    from engine.events import Step
    from engine.types import SamplingParams, Speculate
    from tests.drafter.samples import HELD_OUT, TOPICS, prompts
    from tests.schedules import Job, play, solo

    longest = read_config(drafter).longest
    asked = {"speculate": Speculate.DSPARK, "drafter": str(drafter), "max_draft": longest}
    chosen = prompts(model, TOPICS[-HELD_OUT:])[:count]
    schedule = [Job(prompt, TOKENS, SamplingParams(), 0, None) for prompt in chosen]
    bus = EventBus(Clock(), 1, queue_limit=count)
    subscription = bus.subscribe(lambda: None)
    subscription.drain()
    rows = play(model, schedule, bus, 1, **asked)
    plain = solo(model, chosen[0], TOKENS, SamplingParams())
    assert tuple(rows[0].tokens) == plain[: len(rows[0].tokens)]  # which may end its turn
    steps = [event for event in subscription.drain() if isinstance(event, Step)]
    verified = sum(step.steps for step in steps if step.kind == "verify")
    forwards = sum(step.steps for step in steps)
    return Figures(sum(len(row.tokens) for row in rows), forwards, longest * verified)


def _shuffled(drafter: Path, folder: Path) -> Path:
    """A copy whose weights, except the layers it shares with the target, are random."""
    import mlx.core as mx

    shutil.copy(drafter / "config.json", folder)
    weights = mx.load(str(drafter / "model.safetensors"))
    for name, array in weights.items():
        if array.ndim == 2 and name != "lm_head.weight":
            weights[name] = (array.shape[-1] ** -0.5 * mx.random.normal(array.shape)).astype(
                array.dtype
            )
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder


if __name__ == "__main__":
    main()
