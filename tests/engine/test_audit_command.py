"""`dspark-tui audit` as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.tiny import tiny_llama

DEADLINE = 60


def command(*options: str | Path) -> list[str]:
    return [sys.executable, "-m", "dspark_tui", "audit", *map(str, options)]


def run(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*options), capture_output=True, text=True, timeout=DEADLINE, check=False
    )


def test_the_report_is_plain_when_piped_and_whole_as_json(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "tiny", ends=False)
    done = run("--model", folder, "--max-batch", "2", "--json", tmp_path / "audit.json")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    document = json.loads((tmp_path / "audit.json").read_text())
    assert document["version"] == 1
    assert document["conclusion"] in " ".join(done.stdout.split())
    assert "model.layers.*.mlp.up_proj.weight" in done.stdout
    assert "1 row of 320" in done.stdout
    assert [line for line in done.stderr.splitlines() if line.startswith("decode:")] == [
        "decode: 1 row",
        "decode: 2 rows",
    ]


def test_what_cannot_work_is_one_line(tmp_path: Path) -> None:
    done = run("--model", tmp_path / "missing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"dspark-tui: there is no model at {tmp_path / 'missing'}\n"
    refused = run("--max-batch", "0")
    assert refused.returncode == 2
    assert "whole number from 1 to 256" in refused.stderr


def test_a_file_that_cannot_be_written_is_refused_before_anything_loads(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("--max-batch", "1", "--json", tmp_path / "file" / "a.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("dspark-tui: --json: ")
    assert done.stderr.endswith(f"can't be written: there is no folder {tmp_path / 'file'}\n")


def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "tiny", ends=False)
    process = subprocess.Popen(
        command("--model", folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("load:")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert "Traceback" not in errors
