"""The engine's command line."""

from __future__ import annotations

import argparse

import pytest

from engine.server.options import ServeOptions, add_arguments
from engine.types import Speculate


def parsed(*words: str) -> ServeOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser, default_port=0)
    parser.set_defaults(parent_pipe=False)
    return ServeOptions.of(parser.parse_args(words))


def test_kv_is_quantized_only_when_asked_for() -> None:
    assert parsed().kv_bits is None
    assert parsed("--kv-bits", "4").kv_bits == 4


@pytest.mark.parametrize(
    "words",
    [
        ("--kv-bits", "5"),
        ("--max-batch", "0"),
        ("--port", "70000"),
        ("--prefix-cache", "lots"),
        ("--prefix-cache", "-1"),
        ("--stuck-after", "0"),
        ("--speculate", "always"),
        ("--max-draft", "0"),
        ("--confidence", "1.5"),
        ("--confidence", "nan"),
        ("--drafter-bits", "3"),
        ("--cors", "*"),
        ("--cors", "localhost:3000"),
        ("--cors", "http://localhost:3000/"),
    ],
)
def test_values_that_cannot_work_are_refused(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*words)
    assert words[0] in capsys.readouterr().err


def test_the_memory_for_ended_requests_has_a_size_or_is_off() -> None:
    assert parsed().prefix_cache is None
    sizes = {"512M": 512 * 10**6, "1.5gb": 15 * 10**8, "64": 64, "off": 0}
    for text, size in sizes.items():
        assert parsed("--prefix-cache", text).prefix_cache == size


def test_how_long_a_step_may_take_can_be_said() -> None:
    assert parsed("--stuck-after", "30").stuck_after == 30
    assert parsed("--stuck-after", "off").stuck_after == 0


def test_pages_are_listed_by_their_origin() -> None:
    assert parsed().cors == ()
    listed = parsed("--cors", "http://localhost:3000", "--cors", "https://Pages.example").cors
    assert listed == ("http://localhost:3000", "https://pages.example")


def test_code_from_a_checkpoint_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--trust-remote-code")
    assert "never run" in capsys.readouterr().err


def test_nothing_is_guessed_unless_asked_for() -> None:
    assert (parsed().speculate, parsed().drafter, parsed().max_draft) == (Speculate.OFF, None, None)
    asked = parsed("--speculate", "dspark", "--drafter", "org/name", "--max-draft", "6")
    assert (asked.speculate, asked.drafter, asked.max_draft) == (Speculate.DSPARK, "org/name", 6)
    assert parsed("--max-draft", "auto").max_draft is None
