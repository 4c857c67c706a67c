"""`kill -9` of workbench or worker: the database stays sound, nothing finished is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.victim import Murder

pytestmark = pytest.mark.pty

LATE = 5.0
"""Seconds; far more than the one that is promised, since the machine may be busy."""


def test_a_dozen_kills_lose_nothing_finished_and_leave_marks(tmp_path: Path) -> None:
    murder = Murder(tmp_path, random.Random(4))
    for number in range(8):
        murder.once(worker=number % 2 == 1)
    assert murder.kills == 12
    assert murder.unmarked() == 0
    assert max(loss.finished for loss in murder.losses) < LATE
    assert max(loss.text for loss in murder.losses) < LATE
