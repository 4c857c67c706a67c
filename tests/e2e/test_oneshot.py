"""`dspark-tui -p` without a terminal: plain text, JSON, standard input, interruptions."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dspark_tui import cli, oneshot
from dspark_tui.batch.live import Aggregate
from dspark_tui.conversation.answer import Answer, aggregate, whole_characters
from dspark_tui.conversation.params import PaneParams
from dspark_tui.paths import Paths
from dspark_tui.plain import heading, show
from tests.e2e.waiting import DEADLINE, wait_until
from tests.tiny import tiny_llama
from tests.tui.script import PROSE, Script
from tests.tui.scripted_engine import ScriptedServer

COLD = ("--pane", "name=cold", "T=0", "max_tokens=9")
HOT = ("--pane", "name=hot", "T=1.2", "max_tokens=4")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(Script(rate=200.0)) as running:
        yield running


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What is piped into the program."""
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data, encoding="utf-8"))
    return data


def ask(server: ScriptedServer, *words: str) -> int:
    return cli.main(["--attach", server.url, *words])


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    """Answers to `#hold` hold until the first answer of all has ended here."""
    ask = oneshot.Pane.ask

    async def asked(pane: oneshot.Pane, clients: oneshot.Clients, prompt: str) -> oneshot.Pane:
        answered = await ask(pane, clients, prompt)
        server.script.holding = False
        return answered

    monkeypatch.setattr(oneshot.Pane, "ask", asked)


def text_of(tokens: int) -> str:
    return "".join(PROSE.replace(" ", " \0").split("\0")[:tokens])


def test_all_panes_are_asked_and_shown_as_they_complete(
    server: ScriptedServer,
    stdin: io.BytesIO,
    one_by_one: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask(server, "-p", "Why? #hold", *COLD, *HOT) == 0
    out, error = capsys.readouterr()
    hot, cold = out.index("Pane 2, hot (T1.2 max 4): 4 tokens in "), out.index("Pane 1, cold (T0")
    assert hot < cold
    assert f"\n{text_of(4)}\n\n" in out[hot:cold]
    assert out.endswith(f", token limit\n{text_of(9)}\n\n")
    assert out.isascii()
    assert "tok/s = 13 tok / " in error


@pytest.mark.parametrize("words", [(), ("-p", "-")])
def test_a_piped_prompt_gets_one_bare_answer(
    server: ScriptedServer,
    stdin: io.BytesIO,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdin.write(b"Why\nis it so? #cjk\n")
    stdin.seek(0)
    assert ask(server, "--pane", "max_tokens=2", *words) == 0
    assert capsys.readouterr().out == "光线\n"
    (request,) = server.engine.snapshot().requests
    assert request.prompt_tokens == 1 + 5  # the template's word and all five of the prompt


def test_panes_ask_their_own_engines(
    server: ScriptedServer, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Paths.of_user().config
    config.parent.mkdir(parents=True)
    with ScriptedServer(Script(rate=200.0, slots=2)) as other:
        config.write_text(f'[engines.other]\nurl = "{other.url}/v1"\nmodel = "theirs"\n')
        assert ask(server, "--json", "-p", "Why?", *COLD, *HOT, "engine=other") == 0
        assert [len(e.engine.snapshot().requests) for e in (server, other)] == [1, 1]
    document = json.loads(capsys.readouterr().out)
    assert [pane["engine"] for pane in document["panes"]] == [None, "other"]
    assert [pane["model"] for pane in document["panes"]] == ["scripted-1", "theirs"]


def test_without_panes_there_is_one(
    server: ScriptedServer, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script.tokens = 3
    assert ask(server, "-p", "Why?") == 0
    assert capsys.readouterr().out == f"{text_of(3)}\n"


def test_panes_of_the_settings_are_asked(
    server: ScriptedServer, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Paths.of_user().config
    path.parent.mkdir(parents=True)
    path.write_text('[[pane]]\nname = "a"\nmax_tokens = 2\n[[pane]]\nname = "b"\nmax_tokens = 2\n')
    assert ask(server, "-p", "Why?") == 0
    out = capsys.readouterr().out
    assert "Pane 1, a" in out
    assert "Pane 2, b" in out


def test_json_has_everything(
    server: ScriptedServer,
    stdin: io.BytesIO,
    one_by_one: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask(server, "-p", "Why? #hold", "--json", *COLD, *HOT) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (document["prompt"], document["model"]) == ("Why? #hold", "scripted-1")
    cold, hot = document["panes"]
    assert (cold["pane"], cold["name"], cold["answer"]) == (1, "cold", text_of(9))
    assert cold["parameters"] == {"system": "", "temperature": 0, "top_p": 1, "max_tokens": 9}
    assert hot["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 0}
    assert (hot["finish_reason"], hot["error"]) == ("length", None)
    assert 0 < hot["ttft"] <= hot["completion_time"] < cold["completion_time"]
    total = document["aggregate"]
    assert total["tokens"] == 13
    assert total["tokens_per_second"] == pytest.approx(13 / total["seconds"], rel=0.05)


def test_a_pane_that_fails_is_exit_code_1_and_keeps_what_it_has(
    server: ScriptedServer, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(server, "-p", "Why? #fail") == 1
    out, error = capsys.readouterr()
    assert out == f"{text_of(5)}\n"
    assert error.startswith("dspark-tui: pane 1: the script says this row fails [/x]\n")
    assert ask(server, "-p", "Why? #fail", *COLD, *HOT) == 1
    out, error = capsys.readouterr()
    assert "Pane 1, cold (T0 max 9): the script says this row fails [/x]\n" in out
    assert error.startswith("dspark-tui: 1 of 2 panes gave no whole answer\n")
    assert ask(server, "-p", "Why? #fail", "--json") == 1
    (pane,) = json.loads(capsys.readouterr().out)["panes"]
    assert (pane["answer"], pane["completion_time"]) == (text_of(5), None)
    assert pane["error"] == "the script says this row fails [/x]"


def test_no_engine_and_no_prompt_are_one_line(
    stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--attach", "http://127.0.0.1:9", "-p", "hi"]) == 1
    assert capsys.readouterr().err == "dspark-tui: http://127.0.0.1:9 does not answer\n"
    assert cli.main(["--model", "/nowhere", "-p", "hi"]) == 1
    assert "there is no model at /nowhere" in capsys.readouterr().err
    assert cli.main(["--model", "/nowhere", "--record", "/nowhere/r", "-p", "hi"]) == 1
    assert "can't record to /nowhere/r: there is no folder" in capsys.readouterr().err
    assert cli.main(["--json"]) == 2
    stdin.write(b"\xff")
    stdin.seek(0)
    assert cli.main([]) == 2
    assert capsys.readouterr().err.endswith("dspark-tui: standard input is not UTF-8 text\n")


class OneShot:
    """The program as a process of its own."""

    def __init__(self, *words: str | Path, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dspark_tui", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **options,
        )

    def next_line(self) -> str:
        """Of what it shows."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], DEADLINE)[0], "it shows nothing"
        return self.process.stdout.readline().decode()

    def end(self) -> tuple[int, str, str]:
        out, error = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out.decode(), error.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_shows_what_there_is(number: signal.Signals) -> None:
    with ScriptedServer(Script(rate=40.0, tokens=100_000, together=2)) as server:
        panes = ("--pane", "name=long", "--pane", "max_tokens=12")
        shot = OneShot("--attach", server.url, "-p", "Why?", *panes)
        assert shot.next_line().startswith("Pane 2 (max 12): 12 tokens in ")
        shot.process.send_signal(number)
        code, out, error = shot.end()
        wait_until(lambda: not server.engine.running, "the server's slots are free again")
    assert code == 130
    partial = out.partition("Pane 1, long: interrupted\n")[2].rstrip("\n")
    assert len(partial) > 20
    assert (PROSE * 1000).startswith(partial)
    assert "Traceback" not in error


def test_ctrl_c_before_the_first_token_marks_the_answer_as_broken_off() -> None:
    with ScriptedServer(Script(rate=0.05, prefill_rate=0.05)) as server:
        shot = OneShot("--attach", server.url, "-p", "Why?")
        wait_until(lambda: bool(server.engine.running), "it is asked")
        shot.process.send_signal(signal.SIGINT)
        code, _, error = shot.end()
    assert (code, error) == (130, "dspark-tui: pane 1: interrupted\n")


def test_ctrl_c_while_the_engine_starts_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shot = OneShot("--attach", f"http://127.0.0.1:{silent.getsockname()[1]}", "-p", "Why?")
        silent.accept()
        shot.process.send_signal(signal.SIGINT)
        assert shot.end() == (130, "", "dspark-tui: stopped before the engine was ready\n")


def test_a_reader_that_has_had_enough_is_no_fault_of_ours(server: ScriptedServer) -> None:
    shot = OneShot("--attach", server.url, "-p", "Why?", *COLD)
    assert shot.process.stdout is not None
    shot.process.stdout.close()
    assert shot.process.wait(DEADLINE) == 1
    assert shot.process.stderr is not None
    assert b"BrokenPipe" not in shot.process.stderr.read()


def test_an_encoding_that_lacks_a_character_gets_its_escape(server: ScriptedServer) -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = ("-p", "Why? #cjk", "--pane", "max_tokens=2")
    code, out, _ = OneShot("--attach", server.url, *words, env=ascii_only).end()
    assert (code, out) == (0, "\\u5149\\u7ebf\n")


def test_a_worker_of_its_own_comes_and_goes(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "tiny", ends=False)
    shot = OneShot("--model", model, "-p", "hi", "--json", "--pane", "T=0", "max_tokens=5")
    code, out, error = shot.end()
    assert code == 0, error
    document = json.loads(out)
    assert document["model"] == "tiny"
    assert document["panes"][0]["usage"]["completion_tokens"] == 5


def test_the_heading_says_who_and_how_it_ended() -> None:
    done = Answer(sent=1.0, reason="stop", problem="", tokens=34, end=2.25)
    assert heading(2, PaneParams(name="cold", temperature=0), done) == (
        "Pane 2, cold (T0): 34 tokens in 1.2 s"
    )
    assert heading(1, PaneParams(), Answer()) == "Pane 1: interrupted"


def test_a_terminal_gets_no_control_codes_and_a_pipe_gets_every_byte(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\x1b[2J\x9b31m tab\t end\n👩‍👩‍👧 [/b]"
    show(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(text)
    assert capsys.readouterr().out == "␛[2J␦31m tab\t end\n👩‍👩‍👧 [/b]\n"


def test_the_aggregate_is_tokens_over_the_whole_time() -> None:
    answers = [
        Answer(sent=1.0, tokens=10, end=3.0),
        Answer(sent=2.0, tokens=20, end=7.0),
        Answer(sent=0.5),
    ]
    assert aggregate(answers) == Aggregate(30, 6.0)
    assert aggregate([Answer()]) is None


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    assert whole_characters("a\ud83d\ude00b") == "a😀b"
    assert whole_characters("a\ud83d b") == "a\ufffd b"
