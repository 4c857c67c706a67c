"""What only a real terminal shows: modes, signals, paste, legacy keys, frames, the caret."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pexpect
import pyte
import pytest

from engine.events import EngineStatus, Status
from engine.proof.recording import Recorder
from tests.processes import ended
from tests.pty.conftest import DEADLINE, FRAME_END, FRAME_START, Terminal

pytestmark = pytest.mark.pty
Start = Callable[..., Terminal]

OFFER = "\x1b[?2026;2$y"
"""A terminal's answer to what the driver asks at start: updates can be synchronised."""
ENDLESS = "--rate 100 --tokens 100000"
"""Answers that are not over however late a test looks."""
STREAMS = ("--pane", "max_tokens=100000") * 2
DRAWS_NOTHING = rb"\x1b\[[0-?]*[ -/]*[A-Ha-z]|\x1b\][^\x07]*\x07"
"""Where the caret is, modes, colours, and what is said to the terminal itself."""


def test_typing_sends_and_ctrl_q_leaves_a_clean_terminal(terminal: Start) -> None:
    run = terminal("--pane", "max_tokens=20", "--pane", "max_tokens=20")
    run.send("Explain rainbows.\r")
    run.until_shown("Why a circle")
    run.until(lambda: run.text.count("token limit  ") == 2)
    run.send("\x11")
    assert run.wait() == 0
    assert run.modes_left_on() == []
    assert b"Traceback" not in run.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_leave_restores_the_terminal_and_takes_the_worker_along(
    terminal: Start, number: signal.Signals
) -> None:
    run = terminal(*STREAMS, engine=ENDLESS)
    run.until_shown("slots busy")
    (worker,) = run.worker_pids()
    run.send("stream on\r")
    run.until_shown("2 of 8 slots busy")
    os.kill(run.process.pid, number)
    assert run.wait() == 0
    assert run.modes_left_on() == []
    assert ended(worker)


def test_when_the_terminal_goes_while_panes_stream_all_of_it_ends(terminal: Start) -> None:
    run = terminal(*STREAMS, engine=ENDLESS)
    run.until_shown("slots busy")
    processes = [run.process.pid, *run.worker_pids()]
    run.send("stream on\r")
    run.until_shown("2 of 8 slots busy")
    with suppress(pexpect.ExceptionPexpect):  # raised where it isn't gone at once
        run.process.close(force=False)
    deadline = time.monotonic() + DEADLINE
    while not all(map(ended, processes)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_signal_to_go_on_starts_nothing_twice(terminal: Start) -> None:
    run = terminal()
    run.until_shown("slots busy")
    os.kill(run.process.pid, signal.SIGCONT)
    run.send("typed after it")
    run.until(lambda: run.composer == ["typed after it"])
    os.kill(run.process.pid, signal.SIGHUP)
    assert run.wait() == 0
    assert run.modes_left_on() == []
    assert run.raw.count(b"\x1b[?1049h") == 1


def test_the_worker_goes_when_the_workbench_is_killed(terminal: Start) -> None:
    run = terminal()
    run.until_shown("slots busy")
    (worker,) = run.worker_pids()
    os.kill(run.process.pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE
    while not ended(worker):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_s_segmentation_fault_leaves_the_screen_alone(terminal: Start) -> None:
    run = terminal(*STREAMS, engine=ENDLESS)
    run.until_shown("slots busy")
    (worker,) = run.worker_pids()
    run.send("stream on\r")
    run.until_shown("2 of 8 slots busy")
    os.kill(worker, signal.SIGSEGV)
    run.until(lambda: run.text.count("interrupted") >= 2)
    run.until_shown("0 of 8 slots busy")
    run.send("\x1b")
    run.until_shown("i type")
    run.send("r")
    run.until_shown("tok/s  ttft")
    assert b"Traceback" not in run.raw


def test_a_paste_is_text_whatever_control_characters_it_holds(terminal: Start) -> None:
    run = terminal()
    run.paste("first q line\x03\x11 ends\nsecond line")
    run.until(lambda: [line[:12] for line in run.composer] == ["first q line", "second line"])
    assert run.process.isalive()
    assert "Quit all the same" not in run.text
    run.send("!")
    run.until_shown("second line!")


def test_a_paste_with_escape_sequences_is_one_text_and_presses_no_key(terminal: Start) -> None:
    run = terminal()
    run.paste("hello \x1b[31mred\x1b[0m q\x03 \x11 world")
    run.until(lambda: run.composer == ["hello ␛[31mred␛[0m q␃ ␑ world"])
    run.send("!")
    run.until_shown("world!")
    assert run.process.isalive()
    assert "all the same" not in run.text


def test_a_megabyte_of_paste_is_text_and_the_keys_after_it_still_act(terminal: Start) -> None:
    run = terminal()
    line = "q \x1b[31m red \x1b \x03 and so on\r"
    run.paste(line * (1_000_000 // len(line)) + "the end")
    run.until_shown("MB]")
    run.send("!")
    run.until_shown("MB]!")
    run.send("\x7f\x7f")
    run.until(lambda: run.composer == ["Ask something"])
    run.send("\x1bOP")
    run.until_shown("Esc closes")
    run.send("\x1b\x11")
    assert run.wait() == 0


def test_no_control_code_of_somebody_else_s_reaches_the_terminal(
    terminal: Start, models_server: Callable[[str], str], isolated_home: Path
) -> None:
    evil = "\x1b]0;EVIL\x07\x1b[31m[/x]\x9b2J"
    url = models_server(f"m{evil.replace('/', '!')}")  # of a path only the end is shown
    file = isolated_home / "config" / "dspark-tui" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{json.dumps(f'k{evil}')} = 1\n")
    named = ("--pane", f"name=n{evil}", f"system=s{evil}")
    run = terminal("--attach", url, *named, *named, "-p", f"p{evil}", size=(160, 50))
    shown = "␛]0;EVIL␇␛[31m[/x]␦2J"
    run.until_shown(f"m{shown.replace('/', '!')}")
    for foreign in ("n", "p"):
        run.until_shown(f"{foreign}{shown[:20]}")
    run.until_shown("is not a setting")
    run.send("\x14")
    run.until_shown(f"to 1 n{shown}")
    run.until(lambda: run.composer == [f"p{shown}"])
    run.send("\x1bOQ")
    run.until_shown(f"s{shown}")
    assert b"EVIL\x07" not in run.raw
    assert "\x9b".encode() not in run.raw
    assert b"\x1b]0" not in run.raw
    assert b"\x1b[31m" not in run.raw


def test_legacy_bytes_reach_every_kind_of_action(terminal: Start) -> None:
    run = terminal("--pane", "max_tokens=20", "--pane", "max_tokens=20")
    run.send("one\ntwo")  # ^J is a new line, Enter comes as ^M
    run.until(lambda: run.composer == ["one", "two"])
    run.send("\x03")
    run.until_shown("Ask something")
    run.send("\x14")
    run.until_shown("to 1 only")
    run.send("\t")
    run.until_shown("to 2 only")
    run.send("\x14")
    run.until_shown("to 1 2")
    for key, shown in (("\x1bOP", "Esc closes"), ("\x1bOQ", "Enter apply"), ("\x10", "Search")):
        run.send(key)
        run.until_shown(shown)
        run.send("\x1b")
        run.until(lambda shown=shown: shown not in run.text)
    run.send("\x1b")
    run.until_shown("i type")
    run.send("+")
    run.until_shown("to 1 2 3")
    run.send("1z")
    run.until(lambda: "2  ─" not in run.text)
    run.send("z")
    run.send("q")
    assert run.wait() == 0


def test_the_cursor_stays_at_the_caret_while_eight_panes_stream(terminal: Start) -> None:
    panes = ("--pane", "max_tokens=100000") * 8
    run = terminal(*panes, engine="--rate 30 --tokens 100000", size=(160, 50))
    run.send(OFFER)  # so that frames have an end
    run.send("stream on\r")
    run.until_shown("8 of 8 slots busy")
    run.send("caret here")
    run.until(lambda: run.composer == ["caret here"])
    line = next(y for y, text in enumerate(run.screen.display) if "caret here" in text)
    column = run.screen.display[line].index("caret here") + len("caret here")

    before = len(run.carets)
    run.until(lambda: len(run.carets) >= before + 20)
    assert set(run.carets[before:]) == {(line, column)}


def first_frame(raw: bytes) -> bytes:
    """It goes down from the top of the screen, up to where the cursor goes up again; b"" if it is
    not there to its end."""
    start, row = raw.find(b"\x1b[1;1H"), 1
    for move in re.finditer(rb"\x1b\[(\d+);\d+H", raw[start:]) if start >= 0 else ():
        if int(move[1]) < row:
            return raw[start : start + move.start()]
        row = int(move[1])
    return b""


@pytest.mark.parametrize("typed", ["typed early", "\x1b[200~typed early\x1b[201~"], ids=repr)
def test_what_is_typed_before_the_first_frame_is_in_the_composer(
    terminal: Start, typed: str
) -> None:
    run = terminal(typed=typed)
    run.until(lambda: run.composer == ["typed early"])


def test_enter_before_the_first_frame_sends(terminal: Start) -> None:
    run = terminal(typed="typed early\r")
    run.until_shown("Why a circle")
    run.until(lambda: run.composer == ["Ask something"])


def test_the_first_frame_is_whole(terminal: Start) -> None:
    run = terminal()
    run.until(lambda: first_frame(run.raw))
    screen = pyte.Screen(120, 35)
    pyte.ByteStream(screen).feed(first_frame(run.raw))
    for part in ("› 1", "› 2", "Type below", "to 1 2", "Ask something", "F1 help"):
        assert part in "\n".join(screen.display)


def test_every_frame_is_one_synchronised_update_and_the_screen_is_never_cleared(
    terminal: Start,
) -> None:
    run = terminal()
    first_frame = len(run.raw)
    run.send(OFFER)
    run.until_shown("slots busy")
    run.send("hello")  # what is drawn of that comes after the offer was heard
    run.until(lambda: run.composer == ["hello"] and run.raw.endswith(FRAME_END))
    synchronised = len(run.raw)
    run.send("\r")
    run.until_shown("Why a circle")
    for key, shown in (("\x1bOP", "Esc closes"), ("\x1bOQ", "Enter apply"), ("\x10", "Search")):
        run.send(key)
        run.until_shown(shown)
        run.send("\x1b")
        run.until(lambda shown=shown: shown not in run.text)
    run.send("\x1bOR\x1bOS\x14")
    run.until_shown("to 1 only")
    run.send("\x0c")  # even where the person asks for the whole screen anew
    run.until(lambda: run.text.count("done  200 tok") == 2 and run.raw.endswith(FRAME_END))
    frames = re.compile(re.escape(FRAME_START) + b".*?" + re.escape(FRAME_END), re.DOTALL)
    assert len(frames.findall(run.raw[synchronised:])) > 10
    beside = re.sub(DRAWS_NOTHING, b"", frames.sub(b"", run.raw[synchronised:]))
    assert beside.strip() == b""
    assert not re.search(rb"\x1b\[[0-3]?J|\x1bc", run.raw[first_frame:])


def test_a_resize_to_almost_nothing_and_back(terminal: Start) -> None:
    run = terminal()
    run.process.setwinsize(5, 20)
    run.screen.resize(5, 20)
    run.until_shown("needs 20x6 or more")
    run.process.setwinsize(35, 120)
    run.screen.resize(35, 120)
    run.until_shown("Ask something")
    run.send("typed after it\t")
    run.until_shown("to 1 2")
    run.until(lambda: run.composer == ["typed after it"])
    run.send("\x1bOP")
    run.until_shown("Esc closes")


def test_ascii_mode_draws_with_seven_bits(terminal: Start) -> None:
    run = terminal("--ascii", "--pane", "max_tokens=20", "--pane", "max_tokens=20")
    run.send("hello\r")
    run.until(lambda: run.text.count("token limit  ") == 2)
    odd = {c for c in run.text if ord(c) > 126}
    assert not odd


def test_keys_typed_after_the_one_that_quits_are_harmless(terminal: Start) -> None:
    run = terminal()
    run.send("\x11and on \x1bq\r" * 20)
    assert run.wait() == 0
    assert run.modes_left_on() == []
    assert "failed" not in run.text


def test_the_console_of_linux_is_drawn_with_seven_bits(terminal: Start) -> None:
    run = terminal(term="linux")
    run.until_shown("slots busy")
    assert not {c for c in run.text if ord(c) > 126}


@pytest.mark.parametrize("words", [[], ["replay", "FILE"]])
def test_a_dumb_terminal_is_refused_in_one_line(words: list[str], tmp_path: Path) -> None:
    recording = tmp_path / "run.jsonl"
    recorder = Recorder(recording)
    recorder.write(Status(0.0, EngineStatus.LOADING))
    recorder.close()
    words = [str(recording) if word == "FILE" else word for word in words]
    run = Terminal(*words, engine="", size=(120, 35), term="dumb")
    assert run.wait() in (1, 2)
    assert run.raw.startswith(b"dspark-tui: TERM=dumb can't show a full screen; --")
    assert run.raw.count(b"\n") == 1
    assert b"\x1b" not in run.raw


def test_a_home_that_can_t_be_written_costs_one_banner(
    terminal: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.touch()  # not even the super-user can write into that
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind))
    run = terminal("--pane", "max_tokens=20", "--pane", "max_tokens=20")

    def banner() -> str:
        rows = [row.rpartition("▌")[2].strip(" ─╮│") for row in run.screen.display if "▌" in row]
        return " ".join(filter(None, rows))

    run.until(lambda: "this run leaves no log" in banner())
    end = "can't be written (Not a directory); what is said now is not kept"
    run.until(lambda: banner().endswith(end))
    run.send("hello\r")
    run.until(lambda: run.text.count("token limit  ") == 2)
    run.send("\x11")
    assert run.wait() == 0
    assert b"Traceback" not in run.raw


def test_keys_typed_faster_than_the_screen_draws_keep_their_order(terminal: Start) -> None:
    run = terminal("--pane", "max_tokens=5", "--pane", "max_tokens=5")
    run.send("first\r\x14second\r\x14thirx\x7fd\nfourth")
    run.until(lambda: run.composer == ["third", "fourth"])
    run.until(lambda: run.text.count("› first") == 2)
    run.until(lambda: run.text.count("› second") == 1)
