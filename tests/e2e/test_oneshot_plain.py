"""`dspark-tui --plain` on a terminal: a conversation line by line, nothing drawn."""

from __future__ import annotations

import os
import re
import sys

import pexpect
import pytest

from tests.e2e.waiting import DEADLINE, wait_until
from tests.tui.script import Script
from tests.tui.scripted_engine import ScriptedServer

pytestmark = pytest.mark.pty


class Talk:
    """The program on a pseudo terminal."""

    def __init__(self, server: ScriptedServer, *words: str) -> None:
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "dspark_tui", "--plain", "--attach", server.url, *words],
            env={**os.environ, "TERM": "dumb"},
            encoding="utf-8",
            timeout=DEADLINE,
        )

    def until(self, pattern: str) -> str:
        """What was shown before and with it."""
        self.process.expect(pattern)
        return f"{self.process.before}{self.process.after}"

    def end(self) -> int | None:
        self.process.expect(pexpect.EOF)
        self.process.close()
        return self.process.exitstatus


def test_a_conversation_is_linear_text_and_ends_with_ctrl_d() -> None:
    with ScriptedServer(Script(rate=200.0, tokens=8)) as server:
        talk = Talk(server, "--pane", "name=a", "--pane", "name=b", "system=Be brief.")
        shown = talk.until("> ")
        talk.process.sendline("Why a circle?")
        shown += talk.until(r"tok/s = 16 tok[^\n]*\n> ")
        talk.process.sendline("And then?")
        shown += talk.until(r"tok/s = 16 tok[^\n]*\n> ")
        talk.process.sendeof()
        talk.until("\r\n")
        assert talk.end() == 0
        prompts = [r.prompt_tokens for r in server.engine.snapshot().requests]
    assert len(re.findall(r"Pane 1, a: 8 tokens in ", shown)) == 2
    assert len(re.findall(r"Pane 2, b \(sys: Be brief\.\): 8 tokens in ", shown)) == 2
    assert re.findall(r"2 panes, [^\n]+Ctrl\+D the conversation\.\r\n> ", shown)
    assert shown.count("Ctrl+D") == 1
    assert shown.isascii()
    assert "\x1b" not in shown
    assert min(prompts[2:]) > max(prompts[:2])  # the second time the first is part of it


def test_ctrl_c_shows_what_there_is() -> None:
    with ScriptedServer(Script(rate=40.0, tokens=100_000, together=2)) as server:
        talk = Talk(server, "--pane", "name=long", "--pane", "max_tokens=12")
        talk.until("> ")
        talk.process.sendline("Why?")
        talk.until(r"Pane 2 \(max 12\): 12 tokens in ")
        talk.process.sendintr()
        assert "Pane 1, long: interrupted\r\n## Why a circle" in talk.until("\n> ")


def test_ctrl_c_ends_the_answers_and_at_the_prompt_the_program() -> None:
    with ScriptedServer(Script(rate=40.0, tokens=100_000)) as server:
        talk = Talk(server)
        talk.until("> ")
        talk.process.sendline("Why?")
        running = server.engine.running
        wait_until(lambda: running, "the answer has begun")
        talk.process.sendintr()
        assert "dspark-tui: pane 1: interrupted" in talk.until("> ")
        wait_until(lambda: not running, "the slot is free again")
        talk.process.sendintr()
        talk.until("\\^C\r\n")
        assert talk.end() == 130
