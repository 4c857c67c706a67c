"""README says what is so. `python -m tests.unit.test_readme` writes the key table into it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dspark_tui import config
from dspark_tui.actions import key_table
from dspark_tui.appearance.theming import load_themes
from dspark_tui.arguments import build_parser
from dspark_tui.experiments import file as experiment_file
from tests.benchmarks.__main__ import BENCHMARKS

README = Path(__file__).resolve().parents[2] / "README.md"
KEYS = re.compile(r"(<!-- keys:.*?-->\n\n)(.*?)(\n\n<!-- /keys -->)", re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_key_table_is_the_action_table() -> None:
    found = KEYS.search(README.read_text())
    assert found is not None
    assert found[2].strip() == key_table().strip()


def test_the_example_settings_load_without_a_problem(tmp_path: Path) -> None:
    (text,) = (block for block in blocks("toml") if "[[prompt]]" not in block)
    path = tmp_path / "config.toml"
    path.write_text(text)
    loaded = config.load(path)
    assert loaded.problems == []
    assert [pane.name for pane in loaded.settings.panes] == ["cold", "hot"]


def test_it_names_the_themes_there_are() -> None:
    (paragraph,) = re.findall(r"\*\*Themes\.\*\*.*?\n\n", README.read_text(), re.DOTALL)
    names = {theme.name for theme in load_themes()[0]}
    assert names <= set(re.findall("`([a-z-]+)`", paragraph))


def test_the_example_experiment_loads(tmp_path: Path) -> None:
    (text,) = (block for block in blocks("toml") if "[[prompt]]" in block)
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    size = "2 prompts x 4 inputs x 2 parameter sets = 16 requests"
    assert experiment_file.load(path).size == size


@pytest.mark.parametrize(
    "line",
    [
        line
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("dspark-tui")
    ],
)
def test_the_commands_parse(line: str) -> None:
    words = shlex.split(line.partition("#")[0])[1:]
    build_parser(words).parse_args(words)


def test_the_benchmarks_it_names_exist() -> None:
    named = set(re.findall(r"python -m tests\.benchmarks (\w+)", README.read_text())) - {"NAME"}
    assert named <= set(BENCHMARKS)
    assert named


def test_pictures_it_shows_are_there() -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / path).is_file(), path


if __name__ == "__main__":
    table = key_table().strip()
    README.write_text(KEYS.sub(lambda found: found[1] + table + found[3], README.read_text()))
