"""`kill -9` of workbench or worker: the database stays sound, nothing finished is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.victim import Murder

pytestmark = pytest.mark.pty


def test_a_dozen_kills_lose_nothing_finished_and_leave_marks(tmp_path: Path) -> None:
    murder = Murder(tmp_path, random.Random(4))
    for number in range(8):
        murder.once(worker=number % 2 == 1)
    assert murder.kills == 12
    assert murder.unmarked() == 0
    assert sum(loss.kept for loss in murder.losses) > 0
    assert sum(loss.broken for loss in murder.losses) == 0
