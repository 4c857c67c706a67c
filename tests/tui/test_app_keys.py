"""The workbench with a person's own keys: they act, and everything that names keys names them."""

from __future__ import annotations

from msgspec.structs import replace
from textual.widgets import Static

from dspark_tui.keymap import read_keymap
from dspark_tui.screens.help import Help
from dspark_tui.screens.palette import ActionCommands
from dspark_tui.widgets.key_bar import KeyBar
from tests.tui.conftest import ENDLESS, Bench, OpenBench, panes, slow
from tests.tui.stage import lines

KEYMAP, PROBLEMS = read_keymap(
    {"send": "ctrl+e", "newline": "enter", "help": ["f9", "H"], "zoom": "u", "quit": "f8"}
)
SETTINGS = replace(panes(2), keys=KEYMAP)


def bar(bench: Bench) -> str:
    return str(bench.workbench.query_one(KeyBar).render())


def help_text(bench: Bench) -> str:
    return "\n".join(str(part.render()) for part in bench.app.screen.query(Static))


async def test_the_person_s_keys_act_and_the_usual_ones_no_more(open_bench: OpenBench) -> None:
    assert PROBLEMS == []
    async with open_bench(settings=SETTINGS) as bench:
        await bench.press("a", "enter", "b")
        assert bench.composer.text == "a\nb"
        await bench.press("ctrl+e")
        await bench.until(lambda: bench.conversation(1).turns)
        await bench.press("escape", "z")
        assert bench.pane(1).region.width != 120
        await bench.press("u")
        await bench.until(lambda: bench.pane(1).region.width == 120)
        await bench.press("question_mark")
        assert bench.app.screen is bench.workbench
        await bench.press("H")
        assert isinstance(bench.app.screen, Help)


async def test_bar_help_palette_and_hints_show_the_person_s_keys(open_bench: OpenBench) -> None:
    async with open_bench(size=(160, 40), settings=SETTINGS) as bench:
        assert "^E send" in bar(bench)
        assert "F9 help" in bar(bench)
        welcome = bench.pane(1).render().plain
        assert "^E sends" in welcome
        assert "F9  all keys" in welcome
        await bench.press("ctrl+c")
        assert bench.notices() == ["F8 quits"]
        await bench.press("f9")
        await bench.until(lambda: "F9 H" in help_text(bench))
        assert "^Q" not in help_text(bench)
        await bench.press("H")
        assert bench.app.screen is bench.workbench
        hits = [hit async for hit in ActionCommands(bench.workbench).discover()]
        assert any("  F9 H  " in str(hit.prompt) for hit in hits)


async def test_vim_s_keys_move_in_the_panes_and_can_be_switched_off(open_bench: OpenBench) -> None:
    moved = []
    for vim in (True, False):
        keymap, problems = read_keymap({}, vim=vim)
        assert problems == []
        settings = replace(panes(2, max_tokens=400), keys=keymap)
        async with open_bench(settings=settings) as bench:
            await bench.send("a long one")
            await bench.until_idle()
            await bench.press("escape")
            places: list[object] = []
            view = bench.pane(1).transcript
            await bench.until(lambda view=view: "##" not in "".join(lines(view)))  # set in type
            for key in ("k", "k", "j", "g", "G"):
                await bench.press(key)
                await bench.pilot.pause()
                at_top = view.scroll_y == 0
                places.append("top" if at_top else round(view.scroll_y - view.max_scroll_y))
            await bench.press("l")
            places.append(bench.workbench.session.active.number)
            await bench.press("h", "slash")
            places.append(bench.app.screen is bench.workbench)
            moved.append(places)
    assert moved[0] == [-1, -2, -1, "top", 0, 2, False]
    assert moved[1] == [0, 0, 0, 0, 0, 1, True]


async def test_g_in_capitals_follows_a_growing_answer_again(open_bench: OpenBench) -> None:
    async with open_bench(slow(), settings=ENDLESS) as bench:
        await bench.send("run on")
        view = bench.pane(1).transcript
        await bench.until(lambda: view.max_scroll_y > 3)
        await bench.press("escape", "g")
        await bench.until(lambda: view.new_lines > 0)
        assert view.scroll_y == 0
        await bench.press("G")
        length = view.max_scroll_y
        await bench.until(lambda: view.scroll_y == view.max_scroll_y > length)
        assert view.following


async def test_an_empty_pane_says_what_keys_mean_where_the_focus_is(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        for keys, words in (
            ([], "Type below, Enter sends."),
            (["escape"], "Letters are commands; i to type."),
            (["plus"], "Letters are commands; i to type."),
            (["i"], "Type below, Enter sends."),
        ):
            await bench.press(*keys)
            for pane in bench.workbench.session.panes:
                assert words in bench.pane(pane.number).render().plain
