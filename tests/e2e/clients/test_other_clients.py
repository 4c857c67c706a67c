"""Clients with many dependencies, in an environment of their own: `make clients`.

Each script is what a user of that package would write. It gets the server's URL and prints what it
read as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.workers import RunningWorker

ROOT = Path(__file__).parents[3]
AIDER = ROOT / ".venv-aider" / "bin" / "aider"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 240
"""Imports alone take litellm many seconds on a busy machine."""

pytestmark = pytest.mark.model
WHY = "make clients installs it"


@pytest.fixture(scope="module")
def worker(embedded_model: Path) -> Iterator[RunningWorker]:
    with RunningWorker("--port", "0", "--max-batch", "4") as running:
        assert running.url
        yield running


def read_by(script: str, worker: RunningWorker) -> Any:
    """What a script prints. Skips where its package is not installed."""
    if not PYTHON.exists():
        pytest.skip(WHY)
    shown = subprocess.run(
        [PYTHON, SCRIPTS / script, worker.url],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if "ModuleNotFoundError" in shown.stderr:
        pytest.skip(shown.stderr.splitlines()[-1])
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout.splitlines()[-1])


def test_litellm(worker: RunningWorker) -> None:
    read = read_by("litellm_chat.py", worker)
    assert read["text"]
    assert read["streamed"] == read["text"]
    assert read["streamed_tokens"] == read["tokens"]


def test_instructor(worker: RunningWorker) -> None:
    assert set(read_by("instructor_extract.py", worker)["cities"]) <= {"Oslo", "Rome"}


def test_pydantic_ai(worker: RunningWorker) -> None:
    assert read_by("pydantic_ai_agent.py", worker)["city"] in ("Oslo", "Rome")


def test_llm(worker: RunningWorker) -> None:
    assert read_by("llm_prompt.py", worker)["text"].strip()


@pytest.mark.skipif(not AIDER.exists(), reason=WHY)
def test_aider(worker: RunningWorker, tmp_path: Path) -> None:
    shown = subprocess.run(
        [
            *(AIDER, "--model", "openai/any", "--openai-api-key", "none"),
            *("--openai-api-base", f"{worker.url}/v1", "--chat-mode", "ask", "--no-git", "--yes"),
            *("--no-check-update", "--no-show-model-warnings", "--analytics-disable"),
            *("--message", "Name one colour."),
        ],
        cwd=tmp_path,
        env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert shown.returncode == 0, shown.stderr
    assert "received" in shown.stdout, shown.stdout
