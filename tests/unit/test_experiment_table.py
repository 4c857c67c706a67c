"""The table of results: exact texts, whole rows, nobody else's file harmed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import PaneParams
from dspark_tui.experiments.assertions import Assertion, Demand
from dspark_tui.experiments.experiment import Experiment, Prompt
from dspark_tui.experiments.result_table import FORMATS, KEY, ResultError, ResultTable, Row
from dspark_tui.experiments.rows import RowMaker, columns_of

SUFFIXES = list(FORMATS)
COLUMNS = ("cell", "text", KEY)
NASTY = [
    'a,"b"\r\nc\rd\n',
    "=1+1",
    " | x | <br> &amp; &#124; \\",
    "",
    "\n",
    "| ",
    "\x00\x1b[31m\u2028\x85",
    "光👩‍👩‍👧",
]


def row(number: int, text: str) -> Row:
    return {"cell": number, "text": text, KEY: f"{number:016x}"}


def texts(table: ResultTable) -> list[str]:
    return [row["text"] for row in table.rows()]


def experiment(*assertions: Assertion, inputs: tuple[dict[str, str], ...] = ({},)) -> Experiment:
    return Experiment((Prompt("p", "hi"),), inputs, (PaneParams(),), assertions)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_texts_are_read_back_exactly(suffix: str, tmp_path: Path) -> None:
    table = ResultTable(tmp_path / f"r{suffix}", COLUMNS)
    table.replace([])
    for number, text in enumerate(NASTY):
        table.append(row(number, text))
    assert texts(table) == NASTY
    before = table.path.read_bytes()
    table.replace(table.rows())
    assert table.path.read_bytes() == before


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_any_text_is_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, lines: list[str]
) -> None:
    table = ResultTable(tmp_path_factory.mktemp("t") / f"r{suffix}", COLUMNS)
    table.replace(row(number, text) for number, text in enumerate(lines))
    assert texts(table) == lines


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_row_that_was_being_written_is_dropped_wherever_it_was_cut(
    suffix: str, tmp_path: Path
) -> None:
    table = ResultTable(tmp_path / f"r{suffix}", COLUMNS)
    table.replace([row(0, "zero"), row(1, "one")])
    start = table.path.stat().st_size
    table.append(row(2, 'é,"two"\n, x | y\r\n"and",'))
    data = table.path.read_bytes()
    for end in range(start, len(data) + 1):
        table.path.write_bytes(data[:end])
        rows = table.rows()
        whole = rows[2:] and rows[2]["text"] == row(2, 'é,"two"\n, x | y\r\n"and",')["text"]
        assert len(rows) == 3 if whole else texts(table) == ["zero", "one"]
        table.replace(rows)
        table.append(row(3, "three"))
        assert texts(table)[:2] == ["zero", "one"]
        assert texts(table)[-1] == "three"
    assert len(table.rows()) == 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv", "country,capital\nFrance,Paris\n"),
        ("r.csv", f"cell,text,{KEY}\n1,cut\n2,b,{2:016x}\n"),
        ("r.jsonl", '{"country": "France"}\n'),
        ("r.jsonl", "notes\n"),
        ("r.jsonl", '{"cell": 1\n{"cell": 2, "key": "0000000000000002"}\n'),
        ("r.md", "# Notes\n"),
        ("r.md", "one line"),
        ("r.csv", b"cell,text\xff\n"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(
    tmp_path: Path, name: str, content: str | bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    before = path.read_bytes()
    with pytest.raises(ResultError, match="choose another file"):
        ResultTable(path, COLUMNS).rows()
    assert path.read_bytes() == before


def test_what_cannot_be_a_table_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"must end in one of \.csv, \.jsonl, \.md"):
        ResultTable(tmp_path / "r.xlsx", COLUMNS)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(ResultError, match="can't be read: Is a directory"):
        ResultTable(tmp_path / "d.csv", COLUMNS).rows()
    (tmp_path / "file").touch()
    with pytest.raises(ResultError, match="can't be written: Not a directory"):
        ResultTable(tmp_path / "file" / "r.csv", COLUMNS).append(row(1, ""))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_changed_assertion_judges_the_answers_that_are_there(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"r{suffix}"
    old, new = (experiment(Assertion(word, Demand.CONTAINS, word)) for word in ("yes", "no"))
    maker = RowMaker(old, "m")
    table = ResultTable(path, columns_of(old))
    (cell,) = maker.cells.values()
    table.replace([maker.row(cell, Answer(text="yes", reason="stop", tokens=3, end=1.0))])
    assert table.rows()[0]["result"] == "pass"

    table = ResultTable(path, columns_of(new))
    table.replace(RowMaker(new, "m").settled(table.rows()))
    (found,) = table.rows()
    assert (found["assert: no"], found["result"], found["text"]) == ("fail", "fail", "yes")
    assert str(found["tokens"]) == "3"
    assert "assert: yes" not in found


def test_rows_of_another_model_stay_and_rows_of_other_inputs_are_refused(tmp_path: Path) -> None:
    plan = experiment()
    maker = RowMaker(plan, "one")
    (cell,) = maker.cells.values()
    rows = [maker.row(cell, Answer(text="a"))]
    assert RowMaker(plan, "two").settled(rows) == rows
    wider = RowMaker(experiment(inputs=({"x": "1"},)), "one")
    assert wider.settled(rows) == rows
    (wide,) = wider.cells.values()
    with pytest.raises(ResultError, match="another experiment's"):
        maker.settled([wider.row(wide, Answer())])


def test_a_row_has_what_it_takes_to_ask_again() -> None:
    params = PaneParams(name="cold", system="Be {{how}}.", temperature=0, seed=4)
    plan = Experiment((Prompt("p", "Say {{how}}"),), ({"how": "brief"},), (params,))
    maker = RowMaker(plan, "m")
    (cell,) = maker.cells.values()
    row = maker.row(cell, Answer(text="a"))
    assert (row["message"], row["model"], row["system"]) == ("Say brief", "m", "Be brief.")
    assert json.loads(row["sampling"]) == params.sampling()
