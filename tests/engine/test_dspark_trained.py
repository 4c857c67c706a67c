"""What the training script makes is what the engine drafts with."""

from __future__ import annotations

from pathlib import Path

from engine.bus import Clock, EventBus
from engine.events import Step
from engine.models.load import load
from engine.types import SamplingParams, Speculate
from tests.drafter.samples import Sample
from tests.drafter.trainer import Trainer
from tests.schedules import Job, check, play, solo
from tests.tiny import tiny_llama

STEPS = 200
PROMPTS = ((5, 9, 200, 17), (44, 45, 46, 47, 48, 49), (100, 7))


def test_a_drafter_that_learnt_answers_by_heart_has_them_accepted(tmp_path: Path) -> None:
    """Were places, positions or contexts of training and drafting different, few would be."""
    target = load(tiny_llama(tmp_path / "target", layers=4, ends=False), "tiny")
    schedule = [Job(prompt, 24, SamplingParams(), 0, None) for prompt in PROMPTS]
    samples = [Sample(job.prompt, solo(target, job.prompt, 24, job.sampling)) for job in schedule]
    trainer = Trainer(target, samples, tmp_path / "drafter")
    losses = [trainer.step(step / STEPS)[0] for step in range(STEPS)]
    assert losses[-1] < losses[0] / 4
    trainer.save()
    bus = EventBus(Clock(), 3, queue_limit=10)
    subscription = bus.subscribe(lambda: None)
    subscription.drain()
    asked = {"speculate": Speculate.DSPARK, "drafter": str(tmp_path / "drafter"), "max_draft": 5}
    check(target, schedule, play(target, schedule, bus, 3, **asked))
    steps = [event for event in subscription.drain() if isinstance(event, Step)]
    gained = sum(sum(step.tokens.values()) for step in steps)
    assert gained == 3 * 24
    assert sum(step.steps for step in steps) < 24 / 2
