"""[engines.NAME] in config.toml: workers of our own and servers elsewhere, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui import cli, config
from dspark_tui.engines.entries import EngineEntry
from dspark_tui.paths import Paths

FULL = """\
[engines.big]
model = "~/models/big"
max_batch = 2
precision = "stored"
speculate = "dspark"
drafter_bits = 8
confidence = 0.3
[engines.cloud]
url = "https://host/v1"
model = "some-model"
api_key_env = "CLOUD_KEY"
headers = { X-Team = "ours" }
[[pane]]
engine = "big"
[[pane]]
"""


def load(tmp_path: Path, text: str) -> config.Loaded:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.load(path)


def test_entries_are_read_and_panes_are_bound_to_them(tmp_path: Path) -> None:
    loaded = load(tmp_path, FULL)
    assert loaded.problems == []
    assert loaded.settings.engines == {
        "big": EngineEntry("~/models/big", 2, "stored", "dspark", drafter_bits=8, confidence=0.3),
        "cloud": EngineEntry(
            "some-model",
            url="https://host/v1",
            api_key_env="CLOUD_KEY",
            headers={"X-Team": "ours"},
        ),
    }
    assert [pane.engine for pane in loaded.settings.panes] == ["big", ""]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[engines.a]\nulr = "x"', "2: ulr is no setting of an engine (did you mean url?)"),
        ("[engines.a]\nmax_batch = 0", "2: max_batch takes a whole number from 1 to 256, not 0"),
        ('[engines.a]\nurl = "host:1"', "2: url takes http://HOST:PORT or unix:///PATH"),
        ("[engines.a]\nurl = 3", "2: url takes http://HOST:PORT or unix:///PATH"),
        ("[engines.a]\nspeculate = 'no'", "2: speculate takes one of off, ngram, dspark, auto"),
        ("[engines.a]\ndrafter_bits = 5", "2: drafter_bits takes 4 or 8, 0 for as it is stored"),
        ("[engines.a]\nconfidence = -1", "2: confidence takes a number from 0 to 1, not -1"),
        ('[engines.a]\nurl = "http://h"\nmax_batch = 2', "3: max_batch is the server's own"),
        ('[engines.a]\nurl = "http://h"\nconfidence = 0.5', "3: confidence is the server's own"),
        ('[engines.a]\napi_key_env = "K"', "2: api_key_env is for servers: there is no url"),
        ("[engines.a]\nurl = 'http://h'\nheaders = 'X'", "3: headers takes a table of texts"),
        ('[engines."a b"]\nmodel = ""', '1: engines."a b" is no name'),
        ("engines.a = 3", "1: engines.a is written as a table, [engines.a]"),
        ("engines = 3", "1: engines is written as [engines.NAME] tables"),
        ("[engine.a]\nmodel = ''", "1: engine is not a table of settings (did you mean engines?)"),
        (
            "[engines.cloud]\n[[pane]]\nengine = 'clod'",
            "3: engine 'clod' is not there (did you mean cloud?)",
        ),
        ("[defaults]\nengine = 'x'", "2: engine 'x' is not there ([engines] has none)"),
    ],
)
def test_a_problem_names_line_key_and_what_would_be_right(
    tmp_path: Path, text: str, problem: str
) -> None:
    (found,) = load(tmp_path, text).problems
    assert f"config.toml:{problem}" in str(found)


def test_a_key_that_is_wrong_costs_only_itself_but_without_its_url_a_server_is_none(
    tmp_path: Path,
) -> None:
    loaded = load(tmp_path, "[engines.a]\nmodel = 'm'\nmax_batch = 0\n[engines.b]\nurl = 'x'")
    assert loaded.settings.engines == {"a": EngineEntry("m")}


@pytest.fixture
def file() -> Path:
    path = Paths.of_user().config
    path.parent.mkdir(parents=True)
    path.write_text(FULL)
    return path


def test_they_are_shown_as_they_can_be_written(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config"]) == 0
    shown = capsys.readouterr().out
    assert load(tmp_path, shown).settings.engines == config.load(file).settings.engines
    assert "# api_key_env: environment variable with the server's key" in shown


def test_a_pane_of_the_command_line_names_an_engine_that_is_there(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--pane", "engine=bigg", "-p", "x", "--plain"]) == 2
    assert "--pane: engine 'bigg' is not there (did you mean big?)" in capsys.readouterr().err
