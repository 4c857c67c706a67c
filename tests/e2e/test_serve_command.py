"""`dspark-tui serve`: the worker with a person in front of it."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import httpx
import pytest
from rich.console import Console
from rich.text import Text

from dspark_tui.commands.serve import ConsoleReporter, amount
from engine.events import Capability, EngineStatus, ModelInfo, Progress, Snapshot
from engine.models.capabilities import Feature
from tests.e2e.waiting import wait_until
from tests.e2e.workers import RunningWorker
from tests.tiny import tiny_llama

LAST = list(Feature)[-1]
"""Of the facts that are told."""


class ServeCommand(RunningWorker):
    command = ("dspark_tui", "serve")


def test_it_says_where_and_how_it_serves_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "tiny")
    with ServeCommand("--model", model, "--port", "0", "--max-batch", "3") as serve:
        wait_until(lambda: any(LAST in line for line in serve.lines), "the facts are shown")
        facts = {words[0]: words[1:] for line in serve.lines if (words := line.split())}
        (url,) = facts["address"]
        assert facts["model"] == ["tiny"]
        assert facts["slots"] == ["3"]
        assert facts["precision"][0] == "fp32"
        assert httpx.get(f"{url}/models").json()["data"][0]["id"] == "tiny"
        assert serve.stop(signal.SIGINT) == 0
    assert serve.lines[-1] == "stopped\n"


def test_strict_ends_with_a_line_where_otherwise_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_llama(tmp_path / "tiny")
    monkeypatch.setenv("DSPARK_BLAS", "/no/such/library.so")
    with ServeCommand("--model", model, "--port", "0") as serve:
        wait_until(lambda: any(LAST in line for line in serve.lines), "it is ready")
        assert any("WARNING: asked for /no/such/library.so" in line for line in serve.lines)
        assert serve.stop(signal.SIGINT) == 0
    with ServeCommand("--model", model, "--port", "0", "--strict") as serve:
        assert serve.wait_for_end() == 3
    told = [line for line in serve.lines if "refused" in line]
    assert len(told) == 1
    assert "blas: asked for /no/such/library.so" in told[0]


def test_problems_are_one_line(tmp_path: Path) -> None:
    with ServeCommand("--model", tmp_path / "none") as serve:
        assert serve.wait_for_end() == 2
    assert len(serve.lines) == 1
    (tmp_path / "config.json").touch()
    with ServeCommand("--model", tmp_path, "--host", "0.0.0.0", "--port", "0") as serve:
        assert serve.wait_for_end() == 2
    assert "--api-key" in serve.lines[0]


def test_without_a_terminal_each_stage_is_told_once() -> None:
    out = io.StringIO()
    reporter = ConsoleReporter(Console(file=out))
    for done in range(3):
        reporter.progress(Progress("fetch", "a [bold]model[/x]", done, 3, "bytes"))
    reporter.progress(Progress("load", "weights"))
    reporter.failed("the disk is full", Path("/tmp/log"))
    assert out.getvalue().splitlines() == [
        "fetch: a [bold]model[/x]",
        "load: weights",
        "dspark-tui serve: the disk is full",
        "details: /tmp/log",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_facts_are_no_wider_than_they_have_to_be(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, width=40, force_terminal=terminal, no_color=True, highlight=False)
    batching = Capability(0.0, "batching", "8", "8 rows", "one forward for [all] of them at once")
    model = ModelInfo("tiny", "llama", 1, 1, "fp32", 1, 1)
    state = Snapshot(0.0, 0.0, EngineStatus.OK, 8, 9, model=model, capabilities=(batching,))
    ConsoleReporter(console).ready("http://h:1", state)
    lines = Text.from_ansi(out.getvalue()).plain.splitlines()
    assert lines[:3] == ["model     tiny", "address   http://h:1/v1", "slots     8"]
    assert [line.rstrip() for line in lines] == lines
    if terminal:
        assert lines[3:5] == [
            "batching  8 rows  one forward for [all]",
            "          of them at once",
        ]
    else:
        assert lines[3:] == ["batching  8 rows  one forward for [all] of them at once"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stop_that_was_asked_for_is_confirmed(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, no_color=True)
    ConsoleReporter(console).stopped()
    text = Text.from_ansi(out.getvalue()).plain
    assert text.rstrip("\n") == ("\nstopped" if terminal else "stopped")


def test_amounts() -> None:
    assert amount(Progress("fetch", "", 31_000_000, 93_000_000, "bytes")) == "31 of 93 MB"
    assert amount(Progress("load", "", 3, 9, "tensors")) == "3 of 9 tensors"
    assert amount(Progress("load", "")) == ""
