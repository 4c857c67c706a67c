"""The command line: what it takes, what it refuses, and how little it imports."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dspark_tui import __version__, arguments, cli, config, terminal
from dspark_tui.conversation.params import PaneParams, ParamError

HEAVY = ("textual", "rich", "httpx", "mlx", "mlx_lm", "transformers", "fastapi", "numpy")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    code = (
        "import sys\nfrom dspark_tui import cli\n"
        f"try: cli.main(['{option}'])\nexcept SystemExit as end: assert not end.code\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = python(code)
    assert done.stderr.strip() == "[]"
    assert ("--attach" in done.stdout) == (option == "--help")


def test_help_names_the_commands_that_exist() -> None:
    for name in arguments.COMMANDS:
        with pytest.raises(SystemExit) as end:
            cli.main([name, "--help"])
        assert end.value.code == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"dspark-tui {__version__}\n"


def test_a_reader_that_has_had_enough_is_no_fault_of_ours(isolated_home: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "dspark_tui", "config"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_command_line_wins_over_the_file(isolated_home: Path) -> None:
    loaded = config.Loaded()
    loaded.set("theme", "paper", "config.toml")
    loaded.set("max_batch", 2, "config.toml")
    line = ["--max-batch", "4", "--pane", "name=a", "temperature=0", "--pane", "seed=7"]
    arguments.apply_arguments(loaded, arguments.build_parser().parse_args(line))
    assert loaded.settings.theme == "paper"
    assert loaded.settings.max_batch == 4
    assert loaded.sources["max_batch"] == arguments.COMMAND_LINE
    assert loaded.settings.panes == (PaneParams(name="a", temperature=0), PaneParams(seed=7))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--pane", "temperature"], "K=V words"),
        (["--pane", "temprature=1"], "did you mean temperature?"),
        (["--pane", "temperature=hot"], "temperature takes a number between 0 and 2"),
        (["--pane", "T=0,seed=1"], "--pane T=0,seed=1: temperature takes a number"),
        (["--pane", "top_p=nan"], "top_p takes a number"),
        (["--attach", "localhost:80"], "give http://HOST:PORT, such as http://localhost:80, or"),
        (["--attach", "http://h:1", "--max-draft", "3"], "--max-draft is for a worker of our own"),
        (["--theme", "papre", "-p", "hi"], "did you mean paper?"),
        (["--pane", "seed=1"] * 9, "at most 8"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_2(
    line: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(line) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_without_a_terminal_or_a_prompt_it_says_what_would_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert cli.main([]) == 2
    error = capsys.readouterr().err
    assert "dspark-tui serve" in error
    assert "-p TEXT" in error


def test_t_is_short_for_temperature() -> None:
    assert arguments.pane_of(["T=0", "seed=4"]) == PaneParams(temperature=0, seed=4)


@pytest.mark.parametrize("word", ["name=cold,temperature=0", "max_tokens=8,temperature=0"])
def test_words_of_a_pane_run_together_by_commas_are_neither_name_nor_number(word: str) -> None:
    with pytest.raises(ParamError, match="set apart by blanks"):
        arguments.pane_of([word])


@pytest.mark.parametrize(
    "line", [["--nope"], ["--max-batch", "x"], ["serve", "--port", "\x1b[31m"], ["nonesuch"]]
)
def test_a_command_line_nobody_understands_is_one_line_that_says_why(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(line)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("dspark-tui: error: ")
    assert error.count("\n") == 1
    assert "--help" in error
    assert "\x1b" not in error
    assert line[-1].lstrip("\x1b") in error


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--max-batch", "0"], "'0' is not a whole number from 1 to 256"),
        (["--speculate", "on"], "choose from 'off', 'ngram', 'dspark', 'auto')"),
        (["serve", "--speculate", "on"], "choose from 'off', 'ngram', 'dspark', 'auto')"),
        (["--modle", "x"], "no option --modle: did you mean --model?"),
        (["--modle=x", "serve"], "no option --modle: did you mean --model?"),
        (["serve", "--prot", "80"], "no option --prot: did you mean --port?"),
        (["--trust-remote-code"], "code that comes with a checkpoint is never run"),
        (["sevre"], "no command 'sevre': did you mean serve?"),
        (["models", "ftech"], "did you mean fetch?"),
        (["hello there"], "a prompt comes after -p"),
        (["--model", "m", "bench"], "--model does nothing before bench"),
        (["-pfour", "models"], "-pfour does nothing before models"),
    ],
)
def test_a_slip_is_named_with_what_was_meant(
    line: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(line)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_value_may_read_like_a_command_or_an_option() -> None:
    args = arguments.parse(["-p", "bench", "--pane", "seed=1"])
    assert (args.prompt, args.command) == ("bench", None)
    assert arguments.parse(["-p", "-5 degrees: cold?"]).prompt == "-5 degrees: cold?"
    assert arguments.parse(["--model", "m", "run", "x.toml"]).model == "m"
    assert arguments.parse(["--max-b", "3"]).max_batch == 3


def test_the_console_of_linux_gets_ascii_unless_the_person_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, source, drawn in (
        ("linux", "", True),
        ("linux", "config.toml", False),
        ("xterm", "", False),
    ):
        monkeypatch.setenv("TERM", name)
        loaded = config.Loaded()
        if source:
            loaded.set("ascii", False, source)
        terminal.fit(loaded)
        assert loaded.settings.ascii is drawn


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\nmodle = 'x'\n", "config.toml:2: modle is not a setting (did you mean model?)\n"),
        ("theme = 'paper'\nmodel = [\n", "config.toml:2: is not valid TOML: "),
    ],
)
def test_check_config(
    isolated_home: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    assert cli.main(["--check-config"]) == 0
    path = cli.Paths.of_user().config
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert cli.main(["--check-config"]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_config_shows_values_with_their_sources_as_toml(
    isolated_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cli.Paths.of_user().config
    path.parent.mkdir(parents=True)
    path.write_text("max_batch = 3\n[[pane]]\nname = 'a \"b\"'\n")
    assert cli.main(["config"]) == 0
    shown = capsys.readouterr().out
    assert str(path) in shown
    assert "max_batch = 3  # config.toml" in shown
    assert 'theme = ""  # default' in shown
    path.write_text(shown)
    assert config.load(path).problems == []
    assert config.load(path).settings.panes[0].name == 'a "b"'


def test_a_fault_of_ours_is_one_line_with_the_log_s_place(
    isolated_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr(cli, "run_workbench", broken)
    assert cli.main([]) == 1
    error = capsys.readouterr().err
    assert error.startswith("dspark-tui failed: ZeroDivisionError: a; ")
    log = cli.Paths.of_user().log
    assert str(log) in error
    assert "Traceback" in log.read_text()


def test_a_home_that_cannot_be_written_is_one_notice(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    paths = cli.Paths(blocked, blocked / "s", blocked / "log" / "w.log", blocked / "e", blocked)
    (notice,) = cli.start_log(paths)
    assert "can't be written" in notice
    assert "no log" in notice


def test_speculation_can_be_asked_for_on_the_command_line() -> None:
    loaded = config.Loaded()
    words = ["--speculate", "ngram", "--max-draft", "6"]
    arguments.apply_arguments(loaded, arguments.build_parser().parse_args(words))
    assert loaded.settings.drafting_options == ["--speculate", "ngram", "--max-draft", "6"]
    arguments.apply_arguments(loaded, arguments.build_parser().parse_args(["--max-draft", "auto"]))
    assert loaded.settings.drafting_options == ["--speculate", "ngram"]
    words = ["--drafter-bits", "4", "--confidence", "0.5"]
    arguments.apply_arguments(loaded, arguments.build_parser().parse_args(words))
    assert loaded.settings.drafting_options == ["--speculate", "ngram", *words]
    for wrong in (["--max-draft", "0"], ["--drafter-bits", "3"], ["--confidence", "nan"]):
        with pytest.raises(SystemExit):
            arguments.build_parser().parse_args(wrong)
