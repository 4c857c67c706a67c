"""`dspark-tui bench --record`: the bench's own requests, as the server's events tell them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dspark_tui import cli
from dspark_tui.batch.figures import burst_figures
from dspark_tui.commands import bench_record
from dspark_tui.engines.address import Address
from engine.events import EngineStatus, Event, Finished, Queued, Snapshot, encode
from engine.proof.recording import read
from engine.proof.report import Report
from engine.state import EngineState
from engine.types import FinishReason
from tests.e2e.workers import RunningWorker
from tests.proof.loopback import ThreadedLoopback
from tests.proof.simulated import CONSTANT
from tests.tiny import tiny_llama

TOKENS = 400
"""Long enough that the three of a burst are there together however late one is sent."""

OPTIONS = ("--n", "1,3", "--tokens", str(TOKENS), "--repeat", "2", "--probes", "none")


def bench(*words: str | Path) -> int:
    return cli.main(["bench", *map(str, words)])


def test_the_recording_of_a_bench_holds_every_round_of_it(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "tiny", ends=False)
    path, file = tmp_path / "run.jsonl", tmp_path / "report.json"
    with RunningWorker("--model", model, "--port", "0", "--log", tmp_path / "log") as worker:
        bench(worker.url, *OPTIONS, "--record", path, "--json", file)
    bursts = burst_figures(read(path).events)
    assert sorted(burst.requests for burst in bursts)[-4:] == [1, 1, 3, 3]
    report = Report.model_validate_json(file.read_bytes())
    assert [width.n for width in report.widths] == [1, 3]
    for burst in (burst for burst in bursts if burst.requests == 3):
        assert all(lane.request.finished is not None for lane in burst.lanes)
        assert burst.aggregate is not None
        assert burst.aggregate.tokens == 3 * TOKENS


class LateEvents:
    """A server's events, of which nothing is heard until somebody asks what it has done."""

    def __init__(self, *_: object) -> None:
        self._asked = asyncio.Event()

    async def look_up(self, path: str) -> str:
        self._asked.set()
        state = EngineState()
        for event in (OPENING, *EVENTS):
            state.apply(event)
        return json.dumps(encode(state.snapshot(0.0, 1.0)))

    async def events(self) -> AsyncIterator[Event]:
        yield OPENING
        await self._asked.wait()
        for event in EVENTS:
            await asyncio.sleep(0)
            yield event
        await asyncio.Event().wait()

    async def aclose(self) -> None: ...


OPENING = Snapshot(0.0, 1.0, EngineStatus.OK, 4, 8)
EVENTS = (Queued(0.1, "r1", "", 3, 5, 1), Finished(0.3, "r1", FinishReason.LENGTH, 5, 0.2))


async def test_events_that_come_after_the_answers_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_record, "EngineClient", LateEvents)
    path = tmp_path / "run.jsonl"
    async with bench_record.recorded(Address.parse("http://127.0.0.1:9"), None, str(path)):
        pass
    assert read(path).events == (OPENING, *EVENTS)


def test_a_server_without_events_is_benched_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadedLoopback(CONSTANT) as server:
        code = bench(server.url, "--n", "2", "--tokens", "33", "--repeat", "1", "--probes", "none",
                     "--record", tmp_path / "run.jsonl")  # fmt: skip
    assert code != 1
    assert "nothing is recorded" in capsys.readouterr().err


def test_a_file_that_cannot_be_made_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadedLoopback(CONSTANT) as server:
        assert bench(server.url, *OPTIONS, "--record", tmp_path) == 1
    assert "can't record to" in capsys.readouterr().err
