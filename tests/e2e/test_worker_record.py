"""A real worker on a tiny model, recorded: its file tells what its state told."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from dspark_tui.batch.figures import burst_figures
from engine.events import EngineStatus, Snapshot, Status
from engine.proof.recording import read
from engine.server import last_run
from tests.e2e.waiting import wait_until
from tests.e2e.workers import RunningWorker
from tests.tiny import tiny_llama

CHAT = {"messages": [{"role": "user", "content": "Tell me about slots."}], "max_tokens": 40}
TOKENS = 40


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("model") / "tiny", ends=False)


def test_the_recording_holds_every_figure_of_the_run(model: Path, tmp_path: Path) -> None:
    path, log = tmp_path / "run.jsonl", tmp_path / "engine.log"
    options = ("--model", model, "--port", "0", "--max-batch", "3")
    with RunningWorker(*options, "--record", path, "--log", log) as worker:
        for _ in range(2):
            answer = httpx.post(f"{worker.url}/v1/chat/completions", json=CHAT, timeout=60)
            assert answer.json()["usage"]["completion_tokens"] == TOKENS
        wait_until(worker.idle, "the engine is idle again")
        state = worker.state()
        assert worker.stop() == 0

    recording = read(path)
    first, *_, last = recording.events
    assert isinstance(first, Snapshot)
    assert first.status is EngineStatus.LOADING
    assert isinstance(last, Status)
    assert last.status is EngineStatus.STOPPING
    bursts = burst_figures(recording.events)
    lanes = [lane for burst in bursts for lane in burst.lanes]
    assert [lane.request for lane in lanes] == list(state.requests)
    assert [burst.aggregate.tokens for burst in bursts if burst.aggregate] == [TOKENS, TOKENS]
    for lane, told in zip(lanes, state.requests, strict=True):
        assert lane.completion_time == (told.finished or 0.0) - told.queued

    kept = last_run.load(tmp_path)
    assert kept is not None
    assert (kept.slots, kept.requests) == (3, state.requests)
    assert {c.feature: c.requested for c in kept.capabilities}["precision"] == "auto"


def test_a_file_that_cannot_be_made_is_told_before_anything_loads(
    model: Path, tmp_path: Path
) -> None:
    with RunningWorker("--model", model, "--port", "0", "--record", tmp_path) as worker:
        assert worker.wait_for_end() == 2
    assert worker.lines == [f"engine: can't record to {tmp_path}: Is a directory\n"]


def test_an_older_recording_is_kept_and_no_engine_starts(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("of last week\n")
    with RunningWorker("--model", model, "--port", "0", "--record", path) as worker:
        assert worker.wait_for_end() == 2
    said = f"engine: {path} is there already: name another file, or remove that one\n"
    assert (worker.lines, path.read_text()) == ([said], "of last week\n")
