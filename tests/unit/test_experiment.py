"""Experiments: their files, their cells, their assertions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from dspark_tui.conversation.params import PaneParams
from dspark_tui.experiments.assertions import Assertion, Demand
from dspark_tui.experiments.experiment import Cell, Experiment, Prompt
from dspark_tui.experiments.file import load
from dspark_tui.experiments.template import filled
from dspark_tui.toml_source import FileError

Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes an experiment, and tables beside it."""

    def write(text: str, **tables: str) -> Path:
        for name, content in tables.items():
            (tmp_path / name.replace("_", ".")).write_bytes(content.encode())
        path = tmp_path / "e.toml"
        path.write_text(text)
        return path

    return write


ASKS = '[[prompt]]\ntext = "Say {{word}}"\n'


def words(experiment: Experiment) -> list[str]:
    return [cell.message.removeprefix("Say ") for cell in experiment.cells()]


def test_prompts_times_inputs_times_parameter_sets(written: Written) -> None:
    path = written("""
        [inputs]
        rows = [{word = "a", n = 1}, {word = "b", n = 2.5}]
        [defaults]
        max_tokens = 9
        [[prompt]]
        name = "x"
        text = "{{word}} {{ n }}"
        [[prompt]]
        text = "{{word}}!"
        [[params]]
        temperature = 0
        [[params]]
        name = "hot"
        system = "Like {{word}}."
        temperature = 2
    """)
    experiment = load(path)
    cells = list(experiment.cells())
    assert experiment.size == "2 prompts x 2 inputs x 2 parameter sets = 8 requests"
    assert [cell.number for cell in cells] == list(range(1, 9))
    assert [cell.message for cell in cells[::2]] == ["a 1", "b 2.5", "a!", "b!"]
    assert {cell.params.max_tokens for cell in cells} == {9}
    assert [cell.params.name for cell in cells[:2]] == ["T0", "hot"]
    assert [cell.params.system for cell in cells[1:4:2]] == ["Like a.", "Like b."]
    assert cells[-1].label == "prompt 2 / b, 2.5 / hot"
    assert [cell.source for cell in cells[:3]] == ["T0/a, 1/x", "hot/a, 1/x", "T0/b, 2./x"]


def test_one_prompt_alone_is_an_experiment(written: Written) -> None:
    (cell,) = load(written('[[prompt]]\ntext = "hi"')).cells()
    assert (cell.message, cell.inputs, cell.params) == ("hi", {}, PaneParams(name="default"))
    assert cell.source == "prompt 1"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ('rows = [{word = "a"}, {word = "b"}]', ["a", "b"]),
        ('lists = {word = ["a", "b"], other = [1, 2]}', ["a", "b"]),
        ('combine = "product"\nlists = {word = ["a", "b"], other = [1, 2]}', ["a", "a", "b", "b"]),
        (
            'combine = "product"\nrows = [{word = "a", o = 1}, {word = "b", o = 2}, {word = "a"}]',
            ["a", "a", "b", "b"],
        ),
        ('table = "t.csv"', ["a\nb", " =c,\u2028"]),
        ('combine = "product"\ntable = "t.csv"', ["a\nb", " =c,\u2028"]),
        ('table = "t.jsonl"', ["a", "7", "[1]"]),
        ("rows = [{word = 2026-11-29}, {word = true}]", ["2026-11-29", "true"]),
    ],
)
def test_inputs(written: Written, inputs: str, expected: list[str]) -> None:
    path = written(
        f"[inputs]\n{inputs}\n{ASKS}",
        t_csv='\ufeffword,other\r\n"a\nb",1\r\n" =c,\u2028",1\r\n',
        t_jsonl='{"word": "a"}\n\n{"word": 7}\n{"word": [1]}\n',
    )
    assert words(load(path)) == expected


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("", "e.toml: prompt is missing: there is nothing to ask", ""),
        ("a = ", "e.toml:1: is not valid TOML: Invalid value", ""),
        ('[[promt]]\ntext = "x"', "e.toml:1: promt is not known here", "did you mean prompt?"),
        ('[[prompt]]\ntxt = "x"', "e.toml:2: txt is not known here", "did you mean text?"),
        ('prompt = "x"', "e.toml:1: prompt is written as [[prompt]] tables", ""),
        ('[[prompt]]\ntext = " "', "e.toml:1: prompt needs a text", ""),
        ("[[prompt]]\ntext = 3", "e.toml:2: text takes a text in quotes, not 3", ""),
        (
            '[inputs]\nrows = [{wort = 1}]\n[[prompt]]\ntext = "hi"\n' + ASKS,
            "e.toml:6: text names {{word}}, which no input has",
            "did you mean wort?",
        ),
        (ASKS, "e.toml:2: text names {{word}}, which no input has", ""),
        (
            "[inputs]\nrows = [{word = 1}, {x = 1}]\n" + ASKS,
            "e.toml:4: text names {{word}}, which input 2 lacks",
            "",
        ),
        (
            '[inputs]\nlists = {word = ["a"], b = [1, 2]}\n' + ASKS,
            "e.toml:2: lists differ in length: word 1, b 2",
            'combine = "product" takes each with each',
        ),
        (
            '[inputs]\ncombine = "cross"\nrows = [{word = 1}]\n' + ASKS,
            "e.toml:2: combine takes zip or product, not 'cross'",
            "",
        ),
        ("[inputs]\nlists = {w = []}\n" + ASKS, "e.toml:2: lists takes a list of values for w", ""),
        ("[inputs]\n" + ASKS, "e.toml:1: inputs takes exactly one of table, rows, lists", ""),
        ('[inputs]\ntable = "none.csv"\n' + ASKS, "none.csv: can't be read: No such file", ""),
        ('[inputs]\ntable = "t.txt"\n' + ASKS, "t.txt: ends in none of .csv, .jsonl", ""),
        ('[inputs]\ntable = "bad.csv"\n' + ASKS, "bad.csv:3: has 2 instead of 1 values", ""),
        ('[inputs]\ntable = "bad.jsonl"\n' + ASKS, "bad.jsonl:2: is no JSON object", ""),
        (
            '[[prompt]]\ntext = "x"\n[[params]]\ntemprature = 1',
            "e.toml:4: temprature is not known here",
            "did you mean temperature?",
        ),
        (
            '[[prompt]]\ntext = "x"\n[[params]]\nengine = "other"',
            "e.toml:4: engine is not known here",
            "",
        ),
        (
            '[[prompt]]\ntext = "x"\n[[params]]\nseed = 1\n[[params]]\ntemperature = 9',
            "e.toml:6: temperature takes a number between 0 and 2",
            "",
        ),
        (
            '[[prompt]]\ntext = "x"\nname = "n"\n[[prompt]]\ntext = "y"\nname = "n"',
            "e.toml:6: name 'n' is taken; name each",
            "",
        ),
        (
            '[[prompt]]\ntext = "x"\n[[assert]]\nregex = "("',
            "e.toml:4: regex is no regular expression: missing )",
            "",
        ),
        (
            '[[prompt]]\ntext = "x"\n[[assert]]\njson = true\nmax_length = 1',
            "e.toml:3: assert takes exactly one of contains, regex, json, max_length",
            "",
        ),
        (
            '[[prompt]]\ntext = "x"\n[[assert]]\nmax_length = "9"',
            "e.toml:4: max_length takes a number of characters, not '9'",
            "",
        ),
        (
            '[inputs]\ncombine = "product"\nlists = {a = [1, 2], b = [1, 2]}\n[[prompt]]\n'
            'text = "x"\n[[assert]]\ncontains = "{{c}}"',
            "e.toml:7: contains names {{c}}, which no input has",
            "inputs have: a, b",
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_place_and_nearest_key(
    written: Written, tmp_path: Path, text: str, line: str, hint: str
) -> None:
    path = written(text, t_txt="x", bad_csv="word\na\nb,c\n", bad_jsonl='{"word": 1}\n[1]\n')
    with pytest.raises(FileError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/{line}")
    assert hint in message
    assert "\n" not in message


def test_a_flood_of_cells_is_refused_before_it_is_made(written: Written) -> None:
    lists = ", ".join(f"v{n} = {list(range(100))}" for n in range(9))
    with pytest.raises(FileError, match="come to 1000000000000000000 rows"):
        load(written(f'[inputs]\ncombine = "product"\nlists = {{{lists}}}\n[[prompt]]\ntext = "x"'))


def test_values_are_never_looked_into() -> None:
    assert filled("{{a}} {{ b c }}", {"a": "{{b c}}", "b c": r"\1"}) == r"{{b c}} \1"


def test_a_key_changes_with_all_that_is_asked_and_with_nothing_else() -> None:
    cell = Cell(1, "p", "hi", {"a": "1"}, PaneParams(seed=1))
    others = [
        replace(cell, prompt="q"),
        replace(cell, message="ho"),
        replace(cell, inputs={"a": "2"}),
        replace(cell, params=PaneParams(seed=2)),
        replace(cell, params=PaneParams(seed=1, system="s")),
        replace(cell, repeat=1),
    ]
    keys = {cell.key("m"), cell.key("n"), *(other.key("m") for other in others)}
    assert len(keys) == 8
    assert replace(cell, number=7).key("m") == cell.key("m")


def test_rows_that_are_there_twice_are_asked_twice() -> None:
    experiment = Experiment((Prompt("p", "hi"),), ({"a": "1"}, {"a": "1"}), (PaneParams(),))
    first, second = (cell.key("m") for cell in experiment.cells())
    assert first != second


@pytest.mark.parametrize(
    ("assertion", "text", "holds"),
    [
        (Assertion("", Demand.CONTAINS, "{{a}}"), "x 1+1 y", True),
        (Assertion("", Demand.CONTAINS, "{{a}}"), "x 1 y", False),
        (Assertion("", Demand.CONTAINS, "PARIS"), "in Paris", False),
        (Assertion("", Demand.CONTAINS, "STRASSE", ignore_case=True), "Straße", True),
        (Assertion("", Demand.REGEX, "^{{a}}$"), "1+1", True),
        (Assertion("", Demand.REGEX, "^{{a}}$"), "11", False),
        (Assertion("", Demand.REGEX, "^par", ignore_case=True), "Paris", True),
        (Assertion("", Demand.JSON), ' {"a": [1]}\n', True),
        (Assertion("", Demand.JSON), "```json\n{}\n```", False),
        (Assertion("", Demand.JSON), "NaN", False),
        (Assertion("", Demand.JSON), "[" * 100_000, False),
        (Assertion("", Demand.MAX_LENGTH, "2"), "né", True),
        (Assertion("", Demand.MAX_LENGTH, "2"), "abc", False),
    ],
)
def test_assertions(assertion: Assertion, text: str, holds: bool) -> None:
    assert assertion.holds(text, {"a": "1+1"}) is holds


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        (Assertion("contains {{a}}", Demand.CONTAINS, "{{a}}"), "contains 1+1"),
        (Assertion("regex ^{{ a }}$", Demand.REGEX, "^{{ a }}$"), r"regex ^1\+1$"),
        (Assertion("contains a {{a}}", Demand.CONTAINS, "a\n{{a}}"), "contains a 1+1"),
        (Assertion("names {{b}}", Demand.CONTAINS, "{{a}}"), "names {{b}}"),
        (Assertion("json", Demand.JSON), "json"),
        (Assertion("max_length 9", Demand.MAX_LENGTH, "9"), "max_length 9"),
    ],
)
def test_a_row_s_assertion_says_the_row_s_values(assertion: Assertion, said: str) -> None:
    assert assertion.said({"a": "1+1"}) == said
