"""Theme files edited while the workbench runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color
from textual.command import CommandList

from dspark_tui.appearance.theming import load_themes
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.paths import Paths, write_atomically
from tests.tui.conftest import Bench, OpenBench, panes

MINE = 'schema = 1\nname = "mine"\n[palette]\nprimary = "{}"\n'


@pytest.fixture
def file(paths: Paths) -> Path:
    folder = paths.config.parent / "themes"
    folder.mkdir(parents=True)
    file = folder / "mine.toml"
    write_atomically(file, MINE.format("#ff0000"))
    return file


def drawn_in(bench: Bench, colour: str) -> bool:
    """Has the active pane's border the theme's primary colour, give or take a blend's rounding?"""
    drawn = bench.pane(1).styles.border_top[1].rgb
    return all(abs(a - b) <= 2 for a, b in zip(drawn, Color.parse(colour).rgb, strict=True))


async def test_an_edited_theme_is_applied_while_it_runs(open_bench: OpenBench, file: Path) -> None:
    settings = Settings(theme="mine", panes=(PaneParams(),))
    async with open_bench(settings=settings) as bench:
        await bench.until(lambda: drawn_in(bench, "#ff0000"))
        write_atomically(file, MINE.format("#00ff00"))
        await bench.until(lambda: drawn_in(bench, "#00ff00"))
        assert bench.notices() == []


async def test_a_broken_theme_costs_one_line_and_changes_nothing(
    open_bench: OpenBench, file: Path
) -> None:
    settings = Settings(theme="mine", panes=(PaneParams(),))
    async with open_bench(settings=settings) as bench:
        await bench.until(lambda: "contrast" in bench.app.available_themes)  # all were read
        write_atomically(file, "schema = [")
        await bench.until(lambda: any("is not TOML" in notice for notice in bench.notices()))
        assert drawn_in(bench, "#ff0000")
        write_atomically(file, MINE.format("#0000ff"))
        await bench.until(lambda: drawn_in(bench, "#0000ff"))
        assert len(bench.notices()) == 1
        file.unlink()
        await bench.pilot.pause(1)
        assert drawn_in(bench, "#0000ff")


async def test_a_new_theme_can_be_chosen_at_once(open_bench: OpenBench, file: Path) -> None:
    async with open_bench(settings=panes(1)) as bench:
        text = MINE.format("#ffffff").replace("mine", "new")
        write_atomically(file.with_name("new.toml"), text)
        await bench.until(lambda: "new" in bench.app.available_themes)
        bench.app.theme = "new"
        await bench.until(lambda: drawn_in(bench, "#FFFFFF"))


async def test_there_are_the_themes_that_are_named_elsewhere_and_no_others(
    open_bench: OpenBench, file: Path
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        known = {theme.name for theme in load_themes(file.parent)[0]}
        await bench.until(lambda: bench.app.available_themes.keys() == known)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("embre", "did you mean ember?"),
        ("nord", "there is no theme"),
        ("???", "there are contrast, ember, "),
    ],
)
async def test_a_theme_there_is_not_is_said_with_what_there_is(
    open_bench: OpenBench, name: str, words: str
) -> None:
    async with open_bench(settings=Settings(theme=name, panes=(PaneParams(),))) as bench:
        await bench.until(lambda: any(words in notice for notice in bench.notices()))
        assert bench.app.theme == "ember"


async def test_the_palette_of_themes_marks_the_one_in_use(open_bench: OpenBench) -> None:
    def listed() -> list[str]:
        options = bench.app.screen.query_one(CommandList).options
        return [str(option.prompt) for option in options]

    async with open_bench(settings=Settings(theme="paper")) as bench:
        await bench.until(lambda: "tide" in bench.app.available_themes)
        await bench.send("/themes")
        await bench.until(lambda: "tide" in listed())
        assert [name for name in listed() if "in use" in name] == ["paper   in use"]
        await bench.press(*"tide")
        await bench.until(lambda: listed() == ["tide"])
        await bench.press("enter")
        await bench.until(lambda: bench.app.theme == "tide")
        await bench.send("/themes")
        await bench.press(*"ti")
        await bench.until(lambda: "tide   in use" in listed())
