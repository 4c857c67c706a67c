"""`dspark-tui run` against engines on real ports: slots, resumption, exit codes, interruptions."""

from __future__ import annotations

import asyncio
import csv
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pexpect
import pytest

from dspark_tui import cli
from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import PaneParams
from dspark_tui.engines.chat_updates import ChatUpdate, Ended, Text
from dspark_tui.engines.client_errors import BusyError, ClientError, ConnectionLostError
from dspark_tui.experiments.experiment import Cell
from dspark_tui.experiments.run import run_cells
from engine.events import Admitted, Finished, Queued
from engine.proof.recording import read
from tests.e2e.waiting import DEADLINE, wait_until
from tests.proof.loopback import Manners, ThreadedLoopback
from tests.proof.simulated import CONSTANT
from tests.tiny import tiny_llama
from tests.tui.script import Script
from tests.tui.scripted_engine import ScriptedServer

INPUTS = 12
EXPERIMENT = f"""
[inputs]
lists = {{word = {[f"w{n}" for n in range(INPUTS)]}}}
[[prompt]]
text = "Say {{{{word}}}}"
[defaults]
max_tokens = 6
[[assert]]
name = "heading"
regex = "^## Why"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(EXPERIMENT)
    return path


class HeldClient:
    """Answers a request when its future in `held` is resolved."""

    def __init__(self) -> None:
        self.held: list[asyncio.Future[None]] = []

    async def chat(self, *_: object) -> AsyncIterator[ChatUpdate]:
        self.held.append(asyncio.get_running_loop().create_future())
        await self.held[-1]
        yield Ended("stop", 1)


class FalteringClient:
    """Has a fault for each of the first requests, half an answer included."""

    def __init__(self, *faults: ClientError) -> None:
        self.faults = list(faults)

    async def chat(self, *_: object) -> AsyncIterator[ChatUpdate]:
        if self.faults:
            yield Text("half")
            raise self.faults.pop()
        yield Text("whole")
        yield Ended("stop", 1)


class Counting:
    """Counts the cells that ended. text: of the latest answer."""

    count = 0
    text = ""

    def began(self, cell: Cell, answer: Answer) -> None:
        pass

    def answered(self, cell: Cell, answer: Answer) -> None:
        self.count += 1
        self.text = answer.text

    def failed(self, cell: Cell, error: ClientError) -> None:
        raise AssertionError(error)


def run(*words: str | Path) -> int:
    return cli.main(["run", *map(str, words)])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def quick(**changes: Any) -> Script:
    return Script(**{"rate": 200.0, "slots": 3, **changes})


def test_every_cell_becomes_a_row_and_a_second_run_asks_for_none(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.csv"
    with ScriptedServer(quick()) as server:
        assert run(experiment, "--attach", server.url, "--out", out) == 0
        before = out.read_bytes()
        assert run(experiment, "--attach", server.url, "--out", out) == 0
    rows = rows_of(out)
    assert sorted(int(row["cell"]) for row in rows) == list(range(1, INPUTS + 1))
    assert {row["input.word"] for row in rows} == {f"w{n}" for n in range(INPUTS)}
    for row in rows:
        assert row["text"].startswith("## Why a circle\n")
        assert (row["tokens"], row["reason"], row["model"]) == ("6", "length", "scripted-1")
        assert (row["assert: heading"], row["result"]) == ("pass", "pass")
        assert 0 < float(row["ttft"]) <= float(row["seconds"])
    assert out.read_bytes() == before
    out_text, error = capsys.readouterr()
    assert out_text == ""
    lines = error.splitlines()
    assert lines[0] == "1 prompt x 12 inputs x 1 parameter set = 12 requests"
    assert lines[1].startswith("1 of 12  prompt 1 / w")
    assert "12 are in" in error
    assert "\x1b" not in error


def test_all_slots_are_used_and_the_queue_stays_short(experiment: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    with ScriptedServer(quick(slots=4, together=4)) as server:
        run(experiment, "--attach", server.url, "--out", tmp_path / "r.csv", "--record", record)
    queued = running = widest = 0
    for event in read(record).events:
        match event:
            case Queued():
                queued += 1
            case Admitted():
                queued, running = queued - 1, running + 1
            case Finished():
                running -= 1
        assert queued + running <= 4 + 2
        widest = max(widest, running)
    assert widest == 4


async def test_a_cell_follows_as_soon_as_one_ends() -> None:
    held, ended = HeldClient(), Counting()
    cells = [Cell(n, "p", str(n), {}, PaneParams()) for n in range(20)]
    running = asyncio.create_task(run_cells(held, cells, 4, ended))  # type: ignore[arg-type]
    for count in range(20):
        async with asyncio.timeout(DEADLINE):
            while (ended.count, len(held.held)) != (count, min(6, 20 - count)):
                await asyncio.sleep(0)
        held.held.pop(len(held.held) // 2).set_result(None)
    await running
    assert ended.count == 20


async def test_what_broke_off_or_came_too_early_is_asked_again_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dspark_tui.experiments.run.RETRY_DELAYS", (0.0, 0.0))
    faltering = FalteringClient(ConnectionLostError("gone"), BusyError("loading"))
    ended = Counting()
    cells = [Cell(1, "p", "hi", {}, PaneParams())]
    await run_cells(faltering, cells, 1, ended)  # type: ignore[arg-type]
    assert (ended.count, ended.text) == (1, "whole")


@pytest.mark.parametrize("suffix", [".jsonl", ".md"])
def test_other_formats_resume_as_well(experiment: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"r{suffix}"
    with ScriptedServer(quick()) as server:
        assert run(experiment, "--attach", server.url, "--out", out) == 0
        lines = out.read_bytes().splitlines(keepends=True)
        out.write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
        assert run(experiment, "--attach", server.url, "--out", out) == 0
    again = out.read_bytes().splitlines(keepends=True)
    assert len(again) == len(lines)
    assert again[:-2] == lines[:-2]
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in again]
        assert {row["cell"] for row in rows} == set(range(1, INPUTS + 1))
        assert {row["tokens"] for row in rows} == {6}


def test_only_assertions_fail_a_row(experiment: Path, tmp_path: Path) -> None:
    experiment.write_text(EXPERIMENT.replace("'w5'", "'fail'"))
    with ScriptedServer(quick()) as server:
        assert run(experiment, "--attach", server.url, "--out", tmp_path / "r.csv") == 0


def test_a_server_that_tells_neither_slots_nor_counts_will_do(
    experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r.csv"
    experiment.write_text(EXPERIMENT.replace("^## Why", "^word word"))
    with ThreadedLoopback(replace(CONSTANT, step=0.002), Manners(usage=False)) as server:
        assert run(experiment, "--attach", server.url, "--out", out) == 0
    assert {(row["text"], row["tokens"]) for row in rows_of(out)} == {("word " * 6, "")}


def test_a_failing_assertion_is_exit_code_3_now_and_later(experiment: Path, tmp_path: Path) -> None:
    experiment.write_text(EXPERIMENT + '[[assert]]\ncontains = "w1"\n')
    out = tmp_path / "r.csv"
    with ScriptedServer(quick()) as server:
        assert run(experiment, "--attach", server.url, "--out", out) == 3
        assert run(experiment, "--attach", server.url, "--out", out) == 3
    assert {(row["assert: heading"], row["result"]) for row in rows_of(out)} == {("pass", "fail")}


def test_a_cell_that_fails_fails_alone_and_is_asked_again_next_time(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.write_text(EXPERIMENT.replace("'w5'", "'#fail'"))
    out = tmp_path / "r.csv"
    with ScriptedServer(quick()) as server:
        assert run(experiment, "--attach", server.url, "--out", out) == 1
        assert len(rows_of(out)) == INPUTS - 1
        assert run(experiment, "--attach", server.url, "--out", out) == 1
    error = capsys.readouterr().err
    assert error.count("cell 6, prompt 1 / #fail / default: the script says this row fails") == 2
    assert "11 of 12 cells are in" in error
    assert "the same command asks for the rest" in error


def test_an_engine_that_goes_away_for_good_ends_the_run_with_what_there_is(
    experiment: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dspark_tui.experiments.run.RETRY_DELAYS", (0.01,))
    experiment.write_text(EXPERIMENT.replace("'w11'", "'#die'"))
    out = tmp_path / "r.csv"
    with ScriptedServer(quick(slots=1)) as server:
        url = server.url
        assert run(experiment, "--attach", url, "--out", out) == 1
    words = {row["input.word"] for row in rows_of(out)}
    assert {f"w{n}" for n in range(9)} <= words
    assert "#die" not in words
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"dspark-tui run: {url} ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("none.toml",), "none.toml: can't be read: No such file or directory"),
        (("e.toml", "--out", "r.xlsx"), "r.xlsx must end in one of .csv, .jsonl, .md"),
        (("e.toml", "--out", "e.csv"), "e.csv is no table of results"),
        (("e.toml", "--out", "none/r.csv"), "--out: none/r.csv can't be written: there is no"),
        (("e.toml", "--record", "none/r"), "can't record to none/r: there is no folder none"),
        (("e.toml", "--attach", "nowhere"), "'nowhere' is no address"),
        (("e.toml", "--attach", "http://127.0.0.1:9"), "http://127.0.0.1:9 does not answer"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    experiment: Path,
    words: tuple[str, ...],
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(experiment.parent)
    Path("e.csv").write_text("a,b\n1,2\n")
    assert run(*words) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"dspark-tui run: {line}")


def test_a_dry_run_counts_and_starts_nothing(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(experiment.parent)
    assert run(experiment, "--dry-run") == 0
    assert capsys.readouterr().err == "1 prompt x 12 inputs x 1 parameter set = 12 requests\n"
    assert sorted(path.name for path in experiment.parent.iterdir()) == ["e.toml"]


class RunCommand:
    """The command as a process of its own, its standard error read as it comes."""

    def __init__(self, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dspark_tui", "run", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Exit code and standard error."""
        _, error = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, error


def test_a_terminal_shows_that_requests_run_before_the_first_has_ended(
    experiment: Path, tmp_path: Path
) -> None:
    words = ["-m", "dspark_tui", "run", str(experiment), "--out", str(tmp_path / "r.csv")]
    with ScriptedServer(quick(rate=0.05)) as server:
        words += ["--attach", server.url]
        with pexpect.spawn(sys.executable, words, encoding="utf-8", timeout=DEADLINE) as terminal:
            terminal.expect("0/12.* 5 in flight")
            terminal.kill(signal.SIGINT)
            terminal.expect("0 of 12 cells are in")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(
    number: signal.Signals, experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r.csv"
    for word in ("w4", "w5"):  # these take both slots until they are let go
        experiment.write_text(experiment.read_text().replace(f"'{word}'", f"'{word} #hold'"))
    with ScriptedServer(quick(slots=2)) as server:
        command = RunCommand(experiment, "--attach", server.url, "--out", out)
        wait_until(lambda: out.exists() and len(rows_of(out)) >= 2, "two rows are there")
        command.process.send_signal(number)
        code, error = command.end()
        kept = rows_of(out)
        assert code == 130
        assert 2 <= len(kept) < INPUTS
        assert f"{len(kept)} of 12 cells are in" in error
        assert "Traceback" not in error
        wait_until(lambda: not server.engine.running, "the server's slots are free again")
        server.script.holding = False
        assert run(experiment, "--attach", server.url, "--out", out) == 0
    assert rows_of(out)[: len(kept)] == kept
    assert len(rows_of(out)) == INPUTS


def test_killed_at_any_moment_it_goes_on_from_whole_rows(experiment: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    with ScriptedServer(quick(rate=60.0, slots=2)) as server:
        for least in (1, 3, 6):
            command = RunCommand(experiment, "--attach", server.url, "--out", out)
            wait_until(lambda n=least: out.exists() and len(rows_of(out)) >= n, "rows are there")
            command.process.kill()
            command.end()
        assert run(experiment, "--attach", server.url, "--out", out) == 0
    cells = [int(row["cell"]) for row in rows_of(out)]
    assert sorted(cells) == list(range(1, INPUTS + 1))


def test_a_worker_of_its_own_with_a_tiny_model(experiment: Path, tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "tiny", ends=False)
    out = tmp_path / "r.jsonl"
    experiment.write_text(EXPERIMENT.replace("max_tokens = 6", "max_tokens = 6\ntemperature = 0"))
    assert run(experiment, "--model", model, "--max-batch", "4", "--out", out) == 3
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == INPUTS
    assert {(row["model"], row["tokens"], row["result"]) for row in rows} == {("tiny", 6, "fail")}


def test_a_worker_that_nothing_is_left_for_is_not_started(
    experiment: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, out = tmp_path / "scripted-1", tmp_path / "r.csv"
    model.mkdir()
    (model / "config.json").touch()  # a folder of that name is all that is looked at
    with ScriptedServer(quick()) as server:
        run(experiment, "--attach", server.url, "--out", out)
    capsys.readouterr()
    assert run(experiment, "--model", model, "--out", out) == 0
    _, there, summed = capsys.readouterr().err.splitlines()
    assert there.startswith("12 are in ")
    assert there.endswith(" already, nothing is left to ask")
    assert summed.startswith("12 of 12 cells are in ")
    experiment.write_text(EXPERIMENT.replace("^## Why", "^Because"))
    assert run(experiment, "--model", model, "--out", out) == 3
    out.write_text("\n".join(out.read_text().splitlines()[:1]))
    assert run(experiment, "--model", model, "--out", out) == 1
