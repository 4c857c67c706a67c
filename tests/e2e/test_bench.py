"""`dspark-tui bench` against servers on real ports, good and bad ones."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dspark_tui import cli
from engine.proof.flips import FlipReport
from engine.proof.probes import Kind
from engine.proof.report import Report
from engine.proof.verdict import Name
from tests.e2e.waiting import wait_until
from tests.proof.loopback import Fault, Manners, ThreadedLoopback
from tests.proof.simulated import CONSTANT, SERIAL, WINDOW, Behaviour
from tests.tiny import tiny_llama

QUICK = ["--n", "2,4", "--tokens", "36", "--repeat", "1"]
FAST: dict[str, Any] = {"step": 0.005, "prompt": 0.005, "network": 0.001}
BATCH = replace(CONSTANT, **FAST)
MEASURED = (0, 2, 3)
"""Exit codes, whatever the verdict: a busy machine may spoil that of a quick server."""


def slower(behaviour: Behaviour) -> Iterator[Behaviour]:
    """The same, ever slower: what a busy machine adds matters ever less."""
    for times in (1, 3, 9):
        step, prompt = behaviour.step * times, behaviour.prompt * times
        yield replace(behaviour, step=step, prompt=prompt, window=behaviour.window * times)


def bench(*words: str | Path) -> int:
    return cli.main(["bench", *map(str, words)])


def report_of(path: Path) -> Report:
    return Report.model_validate_json(path.read_bytes())


@pytest.mark.parametrize(
    ("behaviour", "verdict", "code"),
    [
        (BATCH, Name.BATCHED, 0),
        (replace(SERIAL, **FAST), Name.QUEUE, 3),
        (replace(WINDOW, **FAST), Name.WINDOW, 3),
        (replace(BATCH, bursts=True), Name.BATCHED, 0),
    ],
    ids=["batched", "queue", "window", "one chunk"],
)
def test_a_server_gets_its_verdict_on_screen_in_json_and_as_exit_code(
    behaviour: Behaviour,
    verdict: Name,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, picture = tmp_path / "report.json", tmp_path / "report.svg"
    options = (*QUICK, "--probes", "staggered", "--json", file, "--svg", picture)
    for tried in slower(behaviour):
        capsys.readouterr()
        with ThreadedLoopback(tried) as server:
            found = bench(server.url, *options)
        if report_of(file).verdict is verdict:
            break
    assert found == code
    out = capsys.readouterr().out
    assert verdict.upper() in out
    assert "Completion times" in out
    assert "\x1b" not in out
    document = json.loads(file.read_text())
    assert document["verdict"] == verdict
    assert document["version"] == 1
    assert [width["n"] for width in document["widths"]] == [1, 2, 4]
    root = ET.fromstring(picture.read_text())
    assert f"{verdict.upper()}" in {text.text for text in root.iter() if text.tag.endswith("text")}


def test_what_is_sent_is_equal_greedy_different_and_as_asked(tmp_path: Path) -> None:
    with ThreadedLoopback(BATCH) as server:
        bench(server.url, *QUICK, "--probes", "none", "--seed", "5", "--model", "mine")
    warm_up, _, *sweep = server.asked
    assert len(sweep) == 1 + 2 + 4
    prompts = [body["messages"][0]["content"] for body in sweep]
    assert len({prompt[:10] for prompt in prompts}) == len(prompts)
    for body in sweep:
        assert body["max_tokens"] == body["min_tokens"] == 36
        assert body["ignore_eos"] is True
        assert (body["temperature"], body["seed"], body["model"]) == (0, 5, "mine")
    assert warm_up["max_tokens"] < 36


def test_refused_options_are_dropped_for_good_and_early_ends_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    stubborn = Manners(refused=frozenset({"ignore_eos", "stream_options"}), ends_early=40)
    with ThreadedLoopback(BATCH, stubborn) as server:
        code = bench(
            server.url, "--n", "4", "--tokens", "64", "--repeat", "1", "--probes", "none",
            "--json", file,
        )  # fmt: skip
    assert code in MEASURED
    report = report_of(file)
    assert report.fixed_length == []
    assert any("answers ended early" in note for note in report.notes)
    assert any("counted" in note for note in report.notes)
    assert 40 <= report.widths[-1].figures.tokens < 45  # type: ignore[union-attr]
    answered = [body for body in server.asked if "ignore_eos" not in body]
    assert all("stream_options" not in body for body in answered[2:])
    refusals = len(server.asked) - len(answered)
    assert refusals == 2


def test_an_end_that_options_do_not_stop_is_forbidden_by_its_token(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    deaf = Manners(ignored=frozenset({"ignore_eos"}), ends_early=7, ends=23)
    with ThreadedLoopback(BATCH, deaf) as server:
        bench(server.url, *QUICK, "--probes", "none", "--json", file)
    assert report_of(file).fixed_length == ["ignore_eos", "min_tokens", "logit_bias"]
    assert all(body["logit_bias"] == {"23": -100} for body in server.asked[2:])
    assert all("logit_bias" not in body for body in server.asked[:2])


@pytest.mark.parametrize("refused", [frozenset(), frozenset({"logit_bias"})])
def test_where_the_end_cannot_be_forbidden_the_early_ends_are_said(
    tmp_path: Path, refused: frozenset[str]
) -> None:
    file = tmp_path / "report.json"
    deaf = Manners(
        ignored=frozenset({"ignore_eos"}), ends_early=7, ends=23 if refused else None,
        refused=refused,
    )  # fmt: skip
    with ThreadedLoopback(BATCH, deaf) as server:
        bench(server.url, *QUICK, "--probes", "none", "--json", file)
    report = report_of(file)
    assert report.fixed_length == ["ignore_eos", "min_tokens"]
    assert any("in spite of ignore_eos and min_tokens" in note for note in report.notes)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.ERROR_500, "answered 500: this is how it is"),
        (Fault.UNAUTHORIZED, "another key (401)"),
        (Fault.NO_MODEL, "answered 404: this is how it is"),
        (Fault.DROPS, "closed the connection"),
        (Fault.GARBAGE, "not JSON"),
        (Fault.HTML, "OpenAI-compatible?"),
        (Fault.ODD_JSON, "another shape"),
        (Fault.ERROR_FRAME, "out of memory"),
        (Fault.ENDLESS, "no answer was complete within 1 s"),
        (Fault.SILENT, "no answer was complete within 1 s"),
    ],
)
def test_a_server_that_never_answers_well_is_one_line_and_exit_1(
    fault: Fault, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    timeout = "1" if "within 1 s" in words else "60"
    with ThreadedLoopback(BATCH, Manners(fault)) as server:
        assert bench(server.url, *QUICK, "--timeout", timeout) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = [row for row in captured.err.splitlines() if row.startswith("dspark-tui bench:")]
    assert words in line
    assert server.url in line


@pytest.mark.parametrize(
    ("fault", "spare", "code"),
    [
        (Fault.ERROR_500, 7, 0),
        (Fault.DROPS, 3, 2),
        (Fault.ENDLESS, 3, 2),
        (Fault.GARBAGE, 2, 1),
    ],
)
def test_what_fails_on_the_way_is_left_out_and_counted(
    fault: Fault, spare: int, code: int, tmp_path: Path
) -> None:
    """Two to warm up, one alone, two together; the rest as the server lets us."""
    file = tmp_path / "report.json"
    timeout = "6" if fault is Fault.ENDLESS else "60"
    for tried in slower(BATCH):
        with ThreadedLoopback(tried, Manners(fault, spare)) as server:
            found = bench(
                server.url, *QUICK, "--probes", "none", "--timeout", timeout, "--json", file,
            )  # fmt: skip
        if code or found == code:
            break
    assert found == code
    report = report_of(file)
    assert report.failed_requests > 0
    assert report.usable_requests == spare - 2
    assert len(report.failures) == 1
    if code:
        assert report.verdict is Name.INCONCLUSIVE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "http://HOST:PORT"),
        (["http://127.0.0.1:99999"], "http://HOST:PORT"),
        (["http://127.0.0.1:port"], "http://HOST:PORT"),
        (["http://127.0.0.1:1", "--n", "0,2"], "--n takes whole numbers"),
        (["http://127.0.0.1:1", "--n", "two"], "--n takes whole numbers"),
        (["http://127.0.0.1:1", "--tokens", "-3"], "--tokens takes whole numbers"),
        (["http://127.0.0.1:1", "--tokens", "16"], "give 32 or more"),
        (["http://127.0.0.1:1", "--json", "/nowhere/a.json"], "there is no folder /nowhere"),
        (["http://127.0.0.1:1", "--json", "/tmp"], "--json: /tmp can't be written"),
        (["http://127.0.0.1:1", "--json", "/dev/null"], "it is no file"),
        (["http://127.0.0.1:1", "--svg", f"{__file__}/a.svg"], "a.svg can't be written"),
        (["http://127.0.0.1:1", "--record", "/nowhere/r"], "there is no folder /nowhere"),
        (["http://127.0.0.1:1", "--record", __file__], "is there already: name another file"),
        (["http://127.0.0.1:1", "--n", "1"], "to 256, 2 or more among them, not '1'"),
        (["http://127.0.0.1:1", "--precision", "fp32"], "are for a worker started here"),
        (["http://127.0.0.1:1", "--probes", "speed"], "not 'speed'"),
        (["http://127.0.0.1:1", "--header", "nothing"], "'NAME: VALUE'"),
        (["--compare", "/nowhere/a.json", "/nowhere/b.json"], "can't be read"),
        (["--compare", __file__, __file__], "no report"),
    ],
)
def test_orders_that_make_no_sense_are_one_line_and_exit_1(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(*words) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_key_that_cannot_be_sent_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("http://127.0.0.1:1", "--api-key", "ключ") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("dspark-tui bench: http://127.0.0.1:1: ")


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert bench(f"http://127.0.0.1:{free.getsockname()[1]}/v1", *QUICK) == 1
    assert "is a server running there?" in capsys.readouterr().err


def test_tls_spoken_to_a_plain_port(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(plain: socket.socket) -> None:
        connection, _ = plain.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as plain:
        thread = threading.Thread(target=answer, args=(plain,))
        thread.start()
        assert bench(f"https://127.0.0.1:{plain.getsockname()[1]}", *QUICK) == 1
        thread.join()
    assert "TLS: " in capsys.readouterr().err


def test_no_model_listed_asks_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadedLoopback(BATCH, Manners(models=False)) as server:
        assert bench(server.url, *QUICK) == 1
        assert "lists no model" in capsys.readouterr().err
        assert bench(server.url, *QUICK, "--probes", "none", "--model", "m") in MEASURED


def test_json_to_standard_output_is_all_there_is_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadedLoopback(BATCH) as server:
        assert bench(server.url, *QUICK, "--probes", "none", "--json", "-") in MEASURED
    assert Report.model_validate_json(capsys.readouterr().out).model == "simulated"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder here refuses root")
@pytest.mark.parametrize("option", ["--json", "--svg", "--record"])
def test_a_folder_that_takes_no_file_is_found_out_first(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadedLoopback(BATCH) as server:
        assert bench(server.url, *QUICK, option, "/proc/file") == 1
        assert not server.asked
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "/proc/file" in captured.err
    assert captured.err.count("\n") == 1


def test_ctrl_c_reports_what_there_is(tmp_path: Path) -> None:
    """Two to warm up, one alone, four together; the next one alone never ends."""
    file = tmp_path / "report.json"
    behaviour, manners = replace(BATCH, step=0.04), Manners(Fault.SILENT, spare=7)
    with ThreadedLoopback(behaviour, manners) as server:
        command = [sys.executable, "-m", "dspark_tui", "bench", server.url, "--repeat", "50"]
        process = subprocess.Popen(
            [*command, "--n", "4", "--tokens", "40", "--json", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        wait_until(lambda: len(server.asked) > 7, "a burst is over and another runs")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopped before the end" in out
    report = report_of(file)
    assert report.interrupted
    assert report.verdict is Name.BATCHED
    assert not report.rounds[-1].done
    assert {kind for kind in Kind if any(kind in line for line in report.not_tested)} == set(
        Kind
    ) - {Kind.SWEEP}


@pytest.mark.parametrize("tokens", [1, 128], ids=["warming up", "first round"])
def test_ctrl_c_before_anything_is_measured_is_one_line(tokens: int) -> None:
    with ThreadedLoopback(replace(BATCH, step=0.1)) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "dspark_tui", "bench", server.url, "--n", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: any(b["max_tokens"] >= tokens for b in server.asked), "it is asked")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert error.splitlines()[-1] == "dspark-tui bench: stopped before anything was measured"
    assert "no usable answer" not in error


def test_two_reports_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, behaviour in zip(files, (replace(SERIAL, **FAST), BATCH), strict=True):
        with ThreadedLoopback(behaviour) as server:
            bench(server.url, *QUICK, "--probes", "none", "--json", file)
    capsys.readouterr()
    assert bench("--compare", *files) == 0
    out = capsys.readouterr().out
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["4"])
    widths = [report_of(file).widths[-1] for file in files]
    a, b = (width.tokens_per_second for width in widths)
    assert row[1:4] == [f"{a:.1f}", f"{b:.1f}", f"{b / a:.2f}x"]
    assert row[-2:] == [width.verdict for width in widths]


def test_the_schema_describes_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"version", "verdict", "widths", "rounds"} <= set(schema["required"] + ["version"])
    assert "0 a cluster" in schema["$defs"]["ShapeReport"]["properties"]["spread"]["description"]


def test_secrets_stay_out_of_the_command_that_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    with ThreadedLoopback(BATCH) as server:
        done = subprocess.run(
            [
                sys.executable, "-m", "dspark_tui", "bench",
                server.url.replace("//", "//me:hunter1@"), *QUICK,
                "--probes", "none", "--api-key", "hunter2", "--header=X-Key: hunter3",
                "--json", str(file),
            ],
            check=False, capture_output=True,
        )  # fmt: skip
    assert done.returncode in MEASURED
    text = file.read_text()
    assert "hunter" not in text
    assert "--api-key … --header=…" in json.loads(text)["command"]


def test_without_a_url_a_worker_of_our_own_is_examined(tmp_path: Path) -> None:
    model, file = tiny_llama(tmp_path / "tiny", ends=False), tmp_path / "report.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "dspark_tui", "bench", "--model", str(model), *QUICK,
            "--probes", "none", "--json", str(file),
        ],
        capture_output=True, text=True, env=os.environ,
    )  # fmt: skip
    assert done.returncode in MEASURED, done.stderr
    report = report_of(file)
    assert report.model == "tiny"
    assert report.fixed_length == ["ignore_eos", "min_tokens"]
    assert {request.tokens for r in report.rounds for request in r.requests} == {36}
    assert "a worker of our own, 8 slots" in done.stdout


def test_a_worker_that_cannot_start_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--model", tmp_path / "none", *QUICK) == 1
    assert "dspark-tui bench:" in capsys.readouterr().err


def test_why_a_worker_ended_is_said_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dspark_tui", "bench", "--model", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("there is no model")) == (1, 1)


def test_flips_are_counted_on_a_worker_of_our_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flips.json"
    model = tiny_llama(tmp_path / "tiny", ends=False)
    options = ("--n", "3", "--tokens", "6", "--repeat", "1", "--precision", "fp32")
    assert bench("--flips", "--model", model, *options, "--json", file) == 0
    (width,) = FlipReport.model_validate_json(file.read_bytes()).widths
    assert (width.n, width.answers, width.tokens, width.flips) == (3, 3, 18, [])
    assert "tokens compared" in capsys.readouterr().out


def test_flips_need_a_batch_and_log_probabilities(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadedLoopback(BATCH) as server:
        assert bench(server.url, "--flips", "--n", "1") == 1
        assert bench(server.url, "--flips", "--n", "2", "--tokens", "4", "--repeat", "1") == 1
    alone, without = [line for line in capsys.readouterr().err.splitlines() if "bench: " in line]
    assert "2 or more" in alone
    assert "top_logprobs" in without
