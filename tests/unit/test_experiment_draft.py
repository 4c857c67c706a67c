"""Experiments made from a draft, and the paths a form offers for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import Conversation
from dspark_tui.experiments.draft import from_draft
from dspark_tui.experiments.file import load
from dspark_tui.experiments.paths import candidates, completed
from dspark_tui.toml_source import FileError

PANES = (
    Conversation(1, PaneParams(seed=7, max_tokens=9)),
    Conversation(3, PaneParams(name="cold", temperature=0.0, system="Like {{who}}.")),
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("who,what\na,x\nb,y\n")
    return path


def test_panes_are_parameter_sets_and_the_draft_a_prompt(table: Path) -> None:
    experiment = from_draft("Say {{what}}", PANES, table, "zip")
    assert experiment.size == "1 prompt x 2 inputs x 2 parameter sets = 4 requests"
    assert [cell.message for cell in experiment.cells()] == ["Say x"] * 2 + ["Say y"] * 2
    one, two = list(experiment.cells())[2:]
    assert (one.params.name, one.params.seed, one.params.max_tokens) == ("1", 7, 9)
    assert (two.params.name, two.params.system, two.params.seed) == ("3 cold", "Like b.", None)


def test_a_product_takes_each_with_each(table: Path) -> None:
    assert from_draft("{{who}} {{what}}", PANES, table, "product").count == 8


def test_it_is_what_a_file_with_the_same_words_holds(table: Path) -> None:
    path = table.with_name("e.toml")
    path.write_text("""
        [inputs]
        table = "t.csv"
        [[prompt]]
        name = "draft"
        text = "Say {{what}}"
        [[params]]
        name = "1"
        seed = 7
        max_tokens = 9
        [[params]]
        name = "3 cold"
        temperature = 0
        system = "Like {{who}}."
    """)
    assert list(load(path).cells()) == list(from_draft("Say {{what}}", PANES, table, "zip").cells())


@pytest.mark.parametrize(
    ("draft", "name", "line"),
    [
        ("{{wat}}", "t.csv", "t.csv: text names {{wat}}, which no input has (did you mean what?)"),
        (
            "{{zz}}",
            "t.csv",
            "t.csv: text names {{zz}}, which no input has (inputs have: who, what)",
        ),
        ("hi", "", "draft: system names {{who}}, which no input has (there are no inputs)"),
        ("hi", "no.csv", "no.csv: can't be read: No such file or directory"),
        ("hi", "empty.csv", "empty.csv: has no rows"),
        ("hi", "bad.jsonl", "bad.jsonl:1: is not valid JSON: Expecting property"),
    ],
)
def test_what_is_wrong_is_one_line(table: Path, draft: str, name: str, line: str) -> None:
    (table.parent / "empty.csv").write_text("who,what\n")
    (table.parent / "bad.jsonl").write_text("{who")
    with pytest.raises(FileError) as caught:
        from_draft(draft, PANES, table.parent / name if name else None, "zip")
    message = str(caught.value).removeprefix(f"{table.parent}/")
    assert message.startswith(line)
    assert "\n" not in message


def test_panes_on_several_engines_are_refused() -> None:
    panes = (*PANES, Conversation(4, PaneParams(engine="other")))
    with pytest.raises(FileError, match=r"^draft: engine is not the same in all panes"):
        from_draft("hi", panes, None, "zip")
    assert from_draft("hi", panes[2:], None, "zip").count == 1


def test_paths_go_on_from_what_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("capitals.toml", "capes.csv", "notes.md", ".hidden.toml", "b.JSONL"):
        (tmp_path / name).touch()
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "deep.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert candidates("") == ["b.JSONL", "capes.csv", "capitals.toml", "cases/"]
    assert candidates("cap") == ["capes.csv", "capitals.toml"]
    assert candidates("cases/") == ["cases/deep.toml"]
    assert candidates(f"{tmp_path}/.h") == [f"{tmp_path}/.hidden.toml"]
    assert candidates("none/x") == []
    assert (completed("c"), completed("capi"), completed("q")) == ("ca", "capitals.toml", "q")


def test_the_home_folder_may_be_written_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "e.toml").touch()
    assert candidates("~/") == ["~/e.toml"]
