"""Help in dialogs: the key that opens it does so everywhere, and tells the dialog's own keys."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.command import CommandPalette
from textual.widgets import Input, Static

from dspark_tui import screens
from dspark_tui.config import Settings
from dspark_tui.key_names import key_name
from dspark_tui.keymap import read_keymap
from dspark_tui.screens import experiment_keys
from dspark_tui.screens.dialog import Dialog, DialogHelp, KeyHelp, KeySheet
from dspark_tui.screens.experiment_grid import ExperimentGrid
from dspark_tui.screens.finder import Finder
from dspark_tui.screens.palette import Palette
from dspark_tui.screens.params import ParamsForm
from dspark_tui.widgets.fields import LineBox, TextBox
from dspark_tui.widgets.key_bar import KeyBar
from tests.tui.conftest import Bench, OpenBench, fast, panes


def dialogs() -> Iterator[type[Dialog[object]]]:
    """All that can be shown, but the help itself."""
    for module in pkgutil.iter_modules(screens.__path__, f"{screens.__name__}."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = kind.__module__ == module.name and issubclass(kind, Dialog)
            if own and "compose" in dir(kind) and not issubclass(kind, KeySheet):
                yield kind


def heeded(kind: type[Dialog[object]]) -> Iterator[list[str]]:
    """For each thing it does, the keys that do it, itself or in its fields."""
    for base in kind.__mro__:
        for binding in vars(base).get("BINDINGS", ()):
            if isinstance(binding, Binding) and issubclass(base, Dialog):
                yield binding.key.split(",")
    module = importlib.import_module(kind.__module__)
    fields = [
        field
        for _, field in inspect.getmembers(module, inspect.isclass)
        if issubclass(field, LineBox | TextBox)
    ]
    if issubclass(kind, Finder):
        fields = [kind.QUERY]
    for field in fields:
        for call in set(field.KEYS.values()):
            yield [key for key in field.KEYS if field.KEYS[key] == call]


SHOWN = [
    kind for kind in dialogs() if kind.__name__ not in ("Dialog", "Form", "TextSheet", "Finder")
]


def names(kind: type[KeyHelp[Any]]) -> set[str]:
    """The keys its help names, ranges of digits written out."""
    found = {name for keys, _ in kind.KEY_HELP for name in keys.split()}
    for first, last in [name.split("–") for name in found if "–" in name]:
        found |= {str(digit) for digit in range(int(first), int(last) + 1)}
    return found | {"0"}  # as the opposite of other digits


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_the_help_of_a_dialog_names_a_key_for_all_it_does(kind: type[Dialog[object]]) -> None:
    for keys in heeded(kind):
        assert names(kind) & set(map(key_name, keys)), keys


def text_of(bench: Bench) -> str:
    return "\n".join(str(part.render()) for part in bench.app.screen.query(Static))


OPENING = (
    *(["f2"], ["f5"], ["ctrl+r"]),
    *(["escape", key] for key in "ROxBK"),
)


@pytest.mark.parametrize("keys", OPENING, ids=" ".join)
async def test_help_opens_over_a_dialog_and_goes_back_to_it(
    open_bench: OpenBench, keys: list[str]
) -> None:
    async with open_bench(settings=panes(2, max_tokens=5)) as bench:
        await bench.send("hello")
        await bench.until_idle()
        await bench.press(*keys)
        await bench.until(lambda: isinstance(bench.app.screen, Dialog))
        dialog, focused = bench.app.screen, bench.app.focused
        assert dialog.styles.align_vertical == "middle"
        assert dialog.styles.background.a < 1, "nothing below it is seen"
        assert isinstance(dialog, Dialog)
        for back in ("escape", "f1"):
            await bench.press("f1")
            assert isinstance(bench.app.screen, DialogHelp)
            assert all(words in text_of(bench) for _, words in dialog.KEY_HELP)
            await bench.press(back)
            assert bench.app.screen is dialog
            assert bench.app.focused is focused


def test_the_help_of_the_palette_names_a_key_for_all_it_does() -> None:
    for binding in CommandPalette.BINDINGS:
        assert isinstance(binding, Binding)
        keys = {key_name(key.strip()) for key in binding.key.split(",")}
        assert names(Palette) & keys, keys


async def test_help_opens_over_the_palette_and_goes_back_to_what_was_typed(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+p", *"the", "f1")
        assert isinstance(bench.app.screen, DialogHelp)
        assert all(words in text_of(bench) for _, words in Palette.KEY_HELP)
        await bench.press("f1", "m", "e", "enter", "f1")
        assert isinstance(bench.app.screen, DialogHelp)  # over the themes
        await bench.press("escape")
        assert isinstance(bench.app.screen, Palette)


@pytest.mark.parametrize("keys", [["f1"], ["f2"], ["ctrl+p"]], ids=" ".join)
async def test_what_is_below_keeps_its_colours_where_the_terminal_chooses_them(
    open_bench: OpenBench, keys: list[str]
) -> None:
    """A colour of the terminal can't be mixed with another: mixed, it hid all that was below."""

    def name_drawn() -> object:
        strip = bench.app.screen._compositor.render_strips()[0]
        return next((style.color for text, style, _ in strip if style and "dspark-tui" in text), "")

    async with open_bench(settings=Settings(theme="terminal", panes=panes(1).panes)) as bench:
        await bench.pilot.pause()
        below = name_drawn()
        assert below
        await bench.press(*keys)
        await bench.until(lambda: bench.app.screen is not bench.workbench)
        await bench.pilot.pause()
        assert name_drawn() == below


async def test_help_opens_over_an_experiment_s_grid_too(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_bench(fast(), settings=panes(1, max_tokens=3)) as bench:
        await bench.type("hello")
        await bench.press("f5", "enter")
        await bench.until(lambda: isinstance(bench.app.screen, ExperimentGrid))
        grid = bench.app.screen
        assert isinstance(grid, ExperimentGrid)
        await bench.press("question_mark")
        assert isinstance(bench.app.screen, DialogHelp)
        assert all(words in text_of(bench) for _, words in grid.KEY_HELP)
        await bench.press("escape")
        assert bench.app.screen is grid
        await bench.press("slash", "question_mark")  # into the line that is typed into
        assert bench.app.screen is grid


def test_the_help_of_the_grid_names_a_key_for_all_it_does() -> None:
    calls = experiment_keys.KEYS
    for call in set(calls.values()):
        keys = {key_name(key) for key in calls if calls[key] == call}
        assert names(ExperimentGrid) & keys, keys


async def test_what_is_typed_stays_and_a_question_mark_is_typed(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("f2", "x", "question_mark", "f1", "escape", "y")
        assert isinstance(bench.app.screen, ParamsForm)
        assert bench.app.screen.query_one("#name", Input).value == "x?y"


async def test_a_person_s_own_help_key_opens_it_in_dialogs_too(open_bench: OpenBench) -> None:
    keymap, _ = read_keymap({"help": ["f6"]})
    settings = panes(1)
    async with open_bench(settings=type(settings)(panes=settings.panes, keys=keymap)) as bench:
        await bench.press("f2", "f6")
        assert isinstance(bench.app.screen, DialogHelp)


async def test_the_key_bar_is_empty_while_a_dialog_has_the_keys(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        bar = bench.workbench.query_one(KeyBar)
        assert bar.visible
        for keys in (("f2",), ("f1",), ("ctrl+p",)):
            await bench.press(*keys)
            await bench.until(lambda: not bar.visible)
            await bench.press("escape")
            await bench.until(lambda: bar.visible)
