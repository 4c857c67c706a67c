"""`dspark-tui models`: data on stdout, talk on stderr, an exit code that tells."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dspark_tui.commands import models
from tests.tiny import tiny_gguf, tiny_llama


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSPARK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "data"


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    models.add_parser(parser.add_subparsers())
    args = parser.parse_args(["models", *arguments])
    return int(args.run(args))


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_list_is_one_line_a_model(
    arguments: tuple[str, ...], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_llama(data / "models" / "converted")
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert command(*arguments) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["smollm2-135m-instruct", "embedded", "0", "not fetched yet (92.9 MB)"],
        ["converted", "gguf", str(size), "ready"],
    ]


def test_list_on_a_terminal_is_a_table(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_llama(data / "models" / "odd[red]name")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert command("list") == 0
    out = capsys.readouterr().out
    assert "not fetched yet" in out
    assert "odd[red]name" in out


def test_fetch_prints_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf")
    assert command("fetch", str(source)) == 0
    printed = capsys.readouterr()
    assert (Path(printed.out.strip()) / "config.json").is_file()
    assert "tiny.gguf" in printed.err


def test_fetch_of_nothing_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("fetch", "./nothing") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "dspark-tui: there is no model at ./nothing\n"


@pytest.mark.parametrize(
    ("answer", "stays"), [("y", False), ("YES", False), ("n", True), ("", True)]
)
def test_remove_asks(answer: str, stays: bool, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(data / "models" / "converted")
    monkeypatch.setattr("builtins.input", lambda: answer)
    assert command("remove", "converted") == (1 if stays else 0)
    assert folder.exists() is stays


def test_remove_without_anyone_to_ask(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(data / "models" / "converted")

    def no_one() -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", no_one)
    assert command("remove", "converted") == 1
    assert folder.exists()


def test_remove_yes_does_not_ask(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(data / "models" / "converted")
    monkeypatch.setattr("builtins.input", pytest.fail)
    assert command("remove", "converted", "--yes") == 0
    assert not folder.exists()


def test_remove_of_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("remove", "nonsense") == 1
    assert "no model" in capsys.readouterr().err
