"""Each command ends with the codes its help and README's table name, and with no other."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from pathlib import Path

import pytest

from dspark_tui import cli
from dspark_tui.arguments import COMMANDS, build_parser
from dspark_tui.exit_codes import CODES, MEANINGS, Exit, in_words
from dspark_tui.paths import Paths

NOWHERE = "http://127.0.0.1:9"

CASES = [
    ("-p", f"--attach {NOWHERE} -p hello", Exit.FAILED),
    ("-p", "--json", Exit.UNUSABLE),
    ("-p", "--theme nonesuch -p hello", Exit.UNUSABLE),
    ("--check-config", "--check-config", Exit.DONE),
    ("config", "config", Exit.DONE),
    ("serve", "serve --port 0 --model /nowhere", Exit.UNUSABLE),
    ("serve", "serve --port 0 --record {folder}", Exit.UNUSABLE),
    ("bench", f"bench {NOWHERE}", Exit.FAILED),
    ("bench", "bench --schema", Exit.DONE),
    ("run", "run /nowhere.toml", Exit.FAILED),
    ("models", "models", Exit.DONE),
    ("models", "models remove nonesuch --yes", Exit.FAILED),
    ("audit", "audit --model /nowhere", Exit.FAILED),
    ("replay", "replay /nowhere", Exit.FAILED),
]


@pytest.fixture(autouse=True)
def nobody_s_home(isolated_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def code_of(words: str) -> int:
    try:
        return cli.main(shlex.split(words))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(("command", "words", "code"), CASES, ids=[words for _, words, _ in CASES])
def test_a_command_ends_with_the_code_that_is_said(
    command: str, words: str, code: Exit, tmp_path: Path
) -> None:
    assert code_of(words.format(folder=tmp_path)) == code
    assert MEANINGS[command].of(code)


@pytest.mark.parametrize("words", ["--check-config", "config"])
def test_a_config_with_problems_is_2(words: str) -> None:
    config = Paths.of_user().config
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("nonesuch = 1\n")
    assert code_of(words) == Exit.UNUSABLE
    assert MEANINGS[words].of(Exit.UNUSABLE)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_words_that_mean_nothing_are_2(command: str) -> None:
    assert code_of(f"{command} --nonesuch") == Exit.UNUSABLE


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_the_codes(command: str) -> None:
    parser = build_parser([command])
    (actions,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert actions.choices[command].epilog == in_words(command)
    assert all(f"{code:d} " in in_words(command) for code in CODES[:3])
