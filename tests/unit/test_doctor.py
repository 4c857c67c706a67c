"""The doctor's checks: what is well, what is not, and what each of them says to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from dspark_tui import cli, config
from dspark_tui.commands import checks, doctor
from dspark_tui.commands.checks import Check, Level
from dspark_tui.paths import Paths
from engine.events import Capability, Phase, RequestState
from engine.hardware import memory, selfcheck
from engine.hardware.selfcheck import Device, DeviceError
from engine.models import catalog
from engine.models.catalog import Installed, Kind
from engine.server import last_run
from tests.tui.burst import snapshot

DEVICE = Device("0.32", "0.32", "a processor", "OpenBLAS, 1 thread", 90.0, True, "fast")
COLOURFUL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "en_GB.UTF-8"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX is started for real by one test only."""
    monkeypatch.setattr(selfcheck, "examine", lambda: DEVICE)


def bad(found: Iterable[Check]) -> list[Check]:
    return [check for check in found if check.level is not Level.OK]


def test_whatever_is_not_well_says_what_to_do(isolated_home: Path) -> None:
    broken = {"TERM": "dumb", "LANG": "C"}
    found = [*checks.checks(Paths.of_user(), os.environ), *checks.terminal(broken, (20, 5))]
    assert len(bad(found)) >= 3
    assert all(check.fix for check in bad(found))
    assert not any(check.fix for check in found if check.level is Level.OK)


def test_a_good_terminal_is_described() -> None:
    found = list(checks.terminal(COLOURFUL, (120, 35)))
    assert not bad(found)
    assert found[0].text == "120x35, xterm-256color, true colour"


@pytest.mark.parametrize(
    ("environ", "size", "words"),
    [
        ({"TERM": "dumb"}, (120, 35), "TERM is 'dumb'"),
        ({}, (120, 35), "TERM is ''"),
        ({**COLOURFUL, "LC_ALL": "C"}, (120, 35), "the locale C is not UTF-8"),
        (COLOURFUL, (50, 35), "room for one pane only"),
        (COLOURFUL, None, "none here"),
    ],
)
def test_terminals_that_lack_something(
    environ: dict[str, str], size: tuple[int, int] | None, words: str
) -> None:
    (warning,) = bad(checks.terminal(environ, size))
    assert warning.level is Level.WARNING
    assert words in warning.text


def test_config_problems_name_their_line_and_what_was_meant(isolated_home: Path) -> None:
    paths = Paths.of_user()
    paths.config.parent.mkdir(parents=True)
    paths.config.write_text("modle = 'x'\nmax_batch = 0\nattach = 'nowhere'\n")
    unknown, wrong, address = bad(checks.settings(config.load(paths.config), paths))
    assert "config.toml:1: modle is not a setting" in unknown.text
    assert unknown.fix == "did you mean model?"
    assert (wrong.level, "max_batch takes a whole number" in wrong.text) == (Level.WARNING, True)
    assert (address.level, "nowhere" in address.text) == (Level.WARNING, True)


def test_a_theme_there_is_not_is_named(isolated_home: Path) -> None:
    loaded = config.Loaded(config.Settings(theme="papre"))
    (warning,) = bad(checks.settings(loaded, Paths.of_user()))
    assert warning.text == "there is no theme 'papre'; did you mean paper?"


def test_a_broken_theme_is_a_warning(isolated_home: Path) -> None:
    paths = Paths.of_user()
    folder = paths.config.parent / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("schema = 1\nname = 'other'\n")
    (warning,) = bad(checks.settings(config.load(paths.config), paths))
    assert (warning.topic, warning.level) == ("themes", Level.WARNING)
    assert "mine.toml" in warning.text


def test_folders_that_cannot_be_written_are_as_bad_as_what_they_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("DSPARK_DATA_DIR", str(blocked / "data"))
    paths = structs.replace(Paths.of_user(), log=blocked / "log" / "w.log")
    levels = {check.topic: check.level for check in bad(checks.folders(paths))}
    assert levels == {"logs": Level.WARNING, "data": Level.ERROR}


def test_looking_at_folders_leaves_nothing_behind(isolated_home: Path) -> None:
    before = sorted(isolated_home.rglob("*"))
    assert not bad(checks.folders(Paths.of_user()))
    assert sorted(isolated_home.rglob("*")) == before


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    assert checks.memory().level is Level.WARNING
    monkeypatch.setattr(memory, "available", lambda: 8 * 10**9)
    assert checks.memory() == Check("memory", Level.OK, "8.0 GB available")


def test_models_that_cannot_be_used_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Installed("small", Kind.EMBEDDED, Path("a"), 0, "not fetched yet"),
        Installed("org/half", Kind.HUB, Path("b"), 1, "lacks weights"),
        Installed("good", Kind.GGUF, Path("c"), 1),
    ]
    monkeypatch.setattr(catalog, "installed", lambda: found)
    embedded, half, usable = checks.models(config.Settings())
    assert (embedded.level, "first start fetches it" in embedded.text) == (Level.OK, True)
    assert (half.level, half.text) == (Level.WARNING, "org/half: lacks weights")
    assert usable.text == "good"
    *_, wanted = checks.models(config.Settings(model="/no/where/at/all"))
    assert (wanted.level, "there is no model at" in wanted.text) == (Level.ERROR, True)


@pytest.mark.parametrize(
    ("device", "level", "words"),
    [
        (DEVICE, Level.OK, "OpenBLAS, 1 thread, 90 GFLOP/s"),
        (replace(DEVICE, gflops=None), Level.OK, "OpenBLAS, 1 thread"),
        (replace(DEVICE, gflops=3.0), Level.WARNING, "too slow"),
        (replace(DEVICE, optimised=False, why="DSPARK_BLAS=off"), Level.WARNING, "DSPARK_BLAS=off"),
    ],
)
def test_a_slow_blas_is_a_warning(device: Device, level: Level, words: str) -> None:
    check = checks.blas(device)
    assert check.level is level
    assert words in check.text


def test_an_mlx_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Device:
        raise DeviceError("importing MLX ended the process with signal 4")

    monkeypatch.setattr(selfcheck, "examine", broken)
    (check,) = checks.mlx()
    assert (check.level, check.topic) == (Level.ERROR, "mlx")
    assert "signal 4" in check.text


def test_the_process_that_looks_at_mlx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    device = selfcheck.examine()
    assert device.mlx
    assert device.gflops is None or device.gflops > 0
    fake = tmp_path / "python"
    for script, words in (("kill -4 $$", "signal 4"), ("echo oh: no >&2; exit 1", "oh: no")):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(fake))
        with pytest.raises(DeviceError, match=words):
            selfcheck.examine()


def test_the_last_run_shows_what_each_option_really_did(tmp_path: Path) -> None:
    (nothing,) = checks.last_run(tmp_path)
    assert "none yet" in nothing.text
    requests = tuple(
        RequestState(f"r{n}", "", Phase.FINISHED, 5, 9, n, n, n, first_token=n, finished=n + 2.5)
        for n in range(4)
    )
    precision = Capability(1.0, "precision", "auto", "fp32", "it fits")
    drafts = Capability(1.0, "speculate", "ngram", "off", "no drafter for this model", refused=True)
    ranks = Capability(1.0, "distributed", "off", "off", "not asked for")
    cache = Capability(1.0, "prefix-cache", "on", "on", "it is")
    told = (precision, ranks, drafts, cache)
    last_run.save(replace(snapshot(), requests=requests, capabilities=told), tmp_path)
    run, slots, plain, refused, others = checks.last_run(tmp_path)
    assert "smollm2-135m" in run.text
    assert slots.text == "max-batch: 8 slots; up to 3 rows shared a step in its latest 4 requests"
    assert plain.text == "precision: asked for auto, got fp32 (it fits)"
    assert (plain.level, refused.level) == (Level.OK, Level.WARNING)
    assert others.text == "as asked: distributed off, prefix-cache on"


@pytest.mark.parametrize(
    ("level", "code", "summary"),
    [(Level.OK, 0, "All is well."), (Level.WARNING, 0, "1 warning"), (Level.ERROR, 1, "1 error")],
)
def test_only_errors_fail_the_command(
    level: Level,
    code: int,
    summary: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [Check("disk", Level.OK, "[/x] fine"), Check("moon", level, "is [bold]full", "wait")]
    monkeypatch.setattr(checks, "checks", lambda *_: iter(found))
    assert cli.main(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ok", "disk", "[/x]", "fine"]
    assert lines[1].startswith(level)
    assert lines[2].split() == ["fix:", "wait"]
    assert lines[-1] == summary


def test_on_a_terminal_it_is_wrapped_under_itself() -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=40, color_system=None)
    doctor.show(Check("moon", Level.WARNING, "word " * 12, "wait [/x]"), console)
    lines = screen.getvalue().splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[1].startswith(" " * (doctor.LEVEL_WIDTH + doctor.TOPIC_WIDTH) + "word")
    assert "wait [/x]" in lines[-1]
