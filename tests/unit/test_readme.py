"""README says what is so. `python -m tests.unit.test_readme` writes tables from code into it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dspark_tui import config
from dspark_tui.actions import key_table
from dspark_tui.appearance.theming import load_themes
from dspark_tui.arguments import build_parser
from dspark_tui.commands import bench
from dspark_tui.exit_codes import exit_table
from dspark_tui.experiments import file as experiment_file
from engine.proof.verdict import Name
from tests.benchmarks.__main__ import BENCHMARKS

README = Path(__file__).resolve().parents[2] / "README.md"
TABLES = {"keys": key_table(), "exit codes": exit_table()}
"""By the names of the comments around them."""


def place(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}:.*?-->\n\n)(.*?)(\n<!-- /{name} -->)", re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_made_from_the_code_is_up_to_date(name: str) -> None:
    found = place(name).search(README.read_text())
    assert found is not None
    assert found[2].strip() == TABLES[name].strip()


def test_the_bench_s_verdicts_have_the_exit_codes_it_names() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|.*\| (\d) \|$", README.read_text(), re.MULTILINE)
    told = {name: int(code) for names, code in rows for name in re.findall(r"\w+", names)}
    assert told == {name.value: bench.code_of(name) for name in Name}


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
    text = README.read_text()
    for name, table in TABLES.items():
        text = place(name).sub(lambda found, table=table: found[1] + table + found[3], text)
    README.write_text(text)
