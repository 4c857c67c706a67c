"""A few dozen requests of the soak benchmark, for each kind of cache."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine.cache.attention
import engine.scheduler
from engine.models.load import load
from engine.types import FinishReason
from tests.soak import soak
from tests.tiny_families import tiny_family


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "lfm2"])
def test_every_request_ends_right_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.setattr(engine.cache.attention, "LENGTH_STEP", 8)
    monkeypatch.setattr(engine.scheduler, "GROWTH", 8)
    monkeypatch.setattr(engine.scheduler, "LOOKAHEAD", 2)
    outcome = soak(load(tiny_family(tmp_path, family), family), requests=48, seed=1)
    assert outcome.ended.total() == 48
    assert outcome.ended[FinishReason.CANCELLED]
    assert outcome.wrong == []
    assert outcome.busy == 0
    assert outcome.reused
    assert outcome.memory[-1] <= outcome.memory[0] + 64 * 1024
