"""`make`, as far as it can be told without installing anything."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("goal", ["setup", "run", "test"])
def test_what_takes_long_is_announced(goal: str, tmp_path: Path) -> None:
    command = ["make", "-n", goal, f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    installing = next(n for n, line in enumerate(lines) if "--editable" in line)
    assert lines[installing - 1].startswith('echo "Installing')
    assert "--quiet" in lines[installing]  # nobody watches this one
