"""The user's config file, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui import cli, config
from dspark_tui.actions import ACTIONS, Context
from dspark_tui.config import Settings
from dspark_tui.conversation.params import FIELDS, PaneParams
from dspark_tui.paths import Paths
from dspark_tui.state import UiState


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def load(file: Path, text: str) -> config.Loaded:
    file.write_text(text)
    return config.load(file)


def test_no_file_is_all_defaults(file: Path) -> None:
    loaded = config.load(file)
    assert loaded.settings == Settings()
    assert loaded.problems == []


def test_a_full_file(file: Path) -> None:
    loaded = load(
        file,
        """
        model = "org/name"
        max_batch = 4
        precision = "fp32"
        theme = "paper"
        ascii = true
        panel = "large"
        speculate = "dspark"
        drafter = "org/drafter"
        drafter_bits = 4
        confidence = 1
        [defaults]
        max_tokens = 100
        [[pane]]
        name = "cold"
        temperature = 0
        [[pane]]
        name = "hot"
        temperature = 1.5
        seed = 7
        """,
    )
    assert loaded.problems == []
    settings = loaded.settings
    assert (settings.model, settings.max_batch, settings.ascii) == ("org/name", 4, True)
    assert (settings.speculate, settings.drafter) == ("dspark", "org/drafter")
    assert (settings.drafter_bits, settings.confidence, settings.max_draft) == (4, 1, 0)
    assert settings.panes == (
        PaneParams(name="cold", temperature=0, max_tokens=100),
        PaneParams(name="hot", temperature=1.5, max_tokens=100, seed=7),
    )
    assert set(loaded.sources) >= {"model", "panes", "theme"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\nmodle = 'x'", 2, ["modle", "not a setting", "did you mean model?"]),
        ("max_batch = 0", 1, ["max_batch", "from 1 to 256", "not 0"]),
        ("max_batch = true", 1, ["whole number"]),
        ('speculate = "always"', 1, ["speculate", "off, ngram, dspark, auto"]),
        ("max_draft = 65", 1, ["max_draft", "up to 64"]),
        ("drafter_bits = 3", 1, ["drafter_bits", "4 or 8, 0 for as it is stored, not 3"]),
        ("drafter_bits = false", 1, ["drafter_bits", "4 or 8"]),
        ("confidence = 1.5", 1, ["confidence", "from 0 to 1, not 1.5"]),
        ("confidence = nan", 1, ["confidence", "from 0 to 1"]),
        ("confidence = true", 1, ["confidence", "from 0 to 1"]),
        ("panel = 'huge'", 1, ["off, small"]),
        ("ascii = 'yes'", 1, ["true or false"]),
        (
            "ascii = true\n\n[[pane]]\ntemprature = 1",
            4,
            ["temprature", "did you mean temperature?"],
        ),
        ("[[pane]]\ntop_p = 0", 2, ["top_p", "above 0, up to 1"]),
        ("[[pane]]\ntop_p = 1\n[[pane]]\ntop_p = 2", 4, ["top_p"]),
        ("pane = 3", 1, ["[[pane]]"]),
        ("[defaults]\nseed = -1", 2, ["seed", "whole number"]),
        ("a = 1\nb = [1,\n", 2, ["not valid TOML"]),
        ("a = = 1", 1, ["not valid TOML"]),
        ("attach = 'here'", 1, ["attach takes http://HOST:PORT or unix:///PATH, not 'here'"]),
        ("attach = 0", 1, ["attach takes http://HOST:PORT"]),
        ("temperature = 1", 1, ["it belongs under [defaults] or [[pane]]"]),
        ("url = 'http://x'", 1, ["it belongs under [engines.NAME]"]),
        ("zoom = 'f9'", 1, ["it belongs under [keys]"]),
        ("collapse_over = 3", 1, ["it belongs under [paste]"]),
        ("[defaults]\nmax_batch = 3", 2, ["at the file's top, above the first table"]),
        ("[[pane]]\n[[pane]]\nvim = false", 3, ["at the file's top"]),
        ("[engines.a]\ntheme = 'paper'", 2, ["at the file's top"]),
        ("[batch]\nmax_batch = 3", 1, ["batch is not a table", "max_batch: it belongs at the"]),
        ("[paste]\ncolapse_over = 1", 2, ["did you mean paste.collapse_over?"]),
        ("[keys]\nqiut = 'f9'", 2, ["did you mean quit?"]),
        ("[keys]\nwhatever = 'f9'", 2, ["`dspark-tui config` lists all"]),
        ("[keys]\nseed = 'f9'", 2, ["it belongs under [defaults]"]),
    ],
)
def test_a_problem_names_file_line_key_and_what_would_be_right(
    file: Path, text: str, line: int, words: list[str]
) -> None:
    problem = load(file, text).problems[-1]
    assert problem.line == line
    shown = str(problem)
    assert f"config.toml:{line}:" in shown
    assert "\n" not in shown
    for word in words:
        assert word in shown


def test_problems_are_told_in_the_order_of_the_file(file: Path) -> None:
    text = "modle = 1\n[keys]\nqiut = 'f9'\n[[pane]]\nseed = -1\n[defaults]\nsed = 1\n"
    text += "[engines.a]\nurl = 3\n[paste]\ncollapse_over = -1"
    lines = [problem.line for problem in load(file, text).problems]
    assert lines == [1, 3, 5, 7, 9, 11]


def test_one_wrong_value_costs_only_itself(file: Path) -> None:
    loaded = load(file, "max_batch = 'many'\ntheme = 'paper'")
    assert loaded.settings == Settings(theme="paper")
    assert len(loaded.problems) == 1


def test_nine_panes_open_eight(file: Path) -> None:
    loaded = load(file, "[[pane]]\n" * 9)
    assert len(loaded.settings.panes) == 8
    assert "the first 8 open" in str(loaded.problems[0])


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path, file: Path) -> None:
    assert "can't be read" in str(config.load(tmp_path).problems[0])
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in str(config.load(file).problems[0])


def test_state_survives_a_round_trip_and_nonsense(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.toml"
    assert UiState.load(path) == UiState()
    state = UiState(theme="paper", panel="full", target="this")
    state.save(path)
    assert UiState.load(path) == state
    path.write_text("theme = [[")
    assert UiState.load(path) == UiState()
    path.write_text("theme = 3\nunknown = 'x'\npanel = 'off'")
    assert UiState.load(path) == UiState(panel="off")


def test_the_user_s_paths_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x/config")
    paths = Paths.of_user()
    if str(paths.config).startswith("/x"):  # elsewhere the system has its own places
        assert paths.config == Path("/x/config/dspark-tui/config.toml")
    assert paths.log.name == "workbench.log"


def test_keys_by_action_with_a_line_for_each_problem(file: Path) -> None:
    loaded = load(file, '[keys]\nzoom = "u"\nzom = "y"\nsend = ["ctrl+e"]\nhelp = "ctrl+i"\n')
    assert loaded.settings.keys.calls(Context.PANES)["u"] == "zoom()"
    assert [str(problem).partition("config.toml:")[2] for problem in loaded.problems] == [
        "3: zom is no action (did you mean zoom?)",
        "5: help can't have ^I: it arrives as Tab",
    ]
    assert "keys is a table of keys by action" in str(load(file, "keys = 3").problems[0])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("temperature = 0", "it belongs under [defaults] or [[pane]]"),
        ("key = 1", "did you mean keys?"),
        ("thme = ''", "did you mean theme?"),
    ],
)
def test_a_key_in_the_wrong_place_or_misspelt_says_where_it_belongs(
    file: Path, text: str, hint: str
) -> None:
    assert load(file, text).problems[0].hint == hint


@pytest.mark.parametrize(
    "text", ["paste.collapse_over = 0\nvim = false\n", "vim = false\n[paste]\ncollapse_over = 0\n"]
)
def test_a_setting_may_stand_in_a_table(file: Path, text: str) -> None:
    settings = load(file, text).settings
    assert (settings.paste_collapse_over, settings.vim) == (0, False)
    assert "j" not in settings.keys.calls(Context.PANES)
    assert settings.keys.calls(Context.PANES)["down"] == "scroll_down()"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\n[paste]\ncollapse_over = -1\n", ":3: collapse_over takes a whole number, 0 for"),
        (
            "\npaste.colapse_over = 1\n",
            ":2: colapse_over is not a setting (did you mean paste.coll",
        ),
    ],
)
def test_a_problem_in_a_table_has_its_line(file: Path, text: str, words: str) -> None:
    assert any(words in str(problem) for problem in load(file, text).problems)


def test_every_setting_is_documented_with_its_default_and_its_source(
    isolated_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Paths.of_user().config
    path.parent.mkdir(parents=True)
    path.write_text(
        "max_batch = 3\n[defaults]\nmax_tokens = 9\n[[pane]]\n[[pane]]\nname = ''\n"
        "[keys]\nzoom = ['u', 'f8']\n"
    )
    assert cli.main(["config"]) == 0
    shown = capsys.readouterr().out
    for key in config.SETTINGS:
        assert f"\n{key} = " in shown
    for key in FIELDS:
        assert f"# {key}: " in shown
    for action in ACTIONS:
        assert action.per_key or f"\n{action.id} = " in shown
    assert "default 8\nmax_batch = 3  # config.toml" in shown
    assert 'zoom = ["u", "f8"]  # config.toml' in shown
    assert 'send = "enter"  # default' in shown
    first, second = shown.partition("[keys]")[0].split("\n[[pane]]\n")[1:]
    assert 'name = ""  # default\n' in first
    assert 'name = ""  # config.toml\n' in second
    for pane in (first, second):
        assert "max_tokens = 9  # config.toml, [defaults]\n" in pane
        assert "top_k = 0  # default\n" in pane
    before = config.load(path)
    path.write_text(shown)
    again = config.load(path)
    assert again.problems == []
    assert again.settings.panes == before.settings.panes
    for context in Context:
        assert again.settings.keys.calls(context) == before.settings.keys.calls(context)
