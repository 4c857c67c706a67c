"""The screen at its sizes, and every action that changes what it shows."""

from __future__ import annotations

import asyncio

import pytest
from rich.cells import cell_len
from textual import events
from textual.command import CommandList, CommandPalette
from textual.widgets._toast import Toast

from dspark_tui.actions import ACTIONS
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.run import Run
from dspark_tui.conversation.session import TurnStatus
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.help import Help, KeyTable
from dspark_tui.screens.params import ParamsForm
from dspark_tui.state import UiState
from dspark_tui.widgets.batch_panel import BatchPanel, Mode
from dspark_tui.widgets.key_bar import KeyBar
from dspark_tui.widgets.pane_grid import Layout, Plan, plan
from dspark_tui.widgets.status_bar import StatusBar
from dspark_tui.widgets.tab_strip import TabStrip
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, panes
from tests.tui.golden import screen_text
from tests.tui.sheets import shown


def visible(bench: Bench) -> list[int]:
    return [
        pane.number for pane in bench.workbench.session.panes if bench.pane(pane.number).display
    ]


@pytest.mark.parametrize(
    ("count", "width", "height", "expected"),
    [
        (2, 120, 20, Plan(2, 1)),
        (3, 120, 20, Plan(3, 1)),
        (4, 120, 20, Plan(2, 2)),
        (8, 200, 28, Plan(4, 2)),
        (8, 120, 9, Plan(3, 1)),
        (8, 99, 40, Plan(1, 1)),
        (3, 80, 12, Plan(1, 1)),
        (2, 80, 12, Plan(2, 1)),
        (2, 60, 12, Plan(1, 1)),
        (1, 200, 50, Plan(1, 1)),
        (2, 120, 3, Plan(2, 1)),
    ],
)
def test_a_grid_never_makes_a_pane_narrower_or_lower_than_readable(
    count: int, width: int, height: int, expected: Plan
) -> None:
    assert plan(count, width, height, Layout.GRID) == expected


@pytest.mark.parametrize(("width", "count"), [(60, 2), (60, 8), (80, 3), (80, 8)])
async def test_where_one_pane_is_shown_the_others_and_the_key_to_them_are_too(
    open_bench: OpenBench, width: int, count: int
) -> None:
    async with open_bench(size=(width, 24), settings=panes(count, name="a rather long name")) as b:
        tabs = b.workbench.query_one(TabStrip)
        await b.until(lambda: str(tabs.render()).endswith("Tab next pane "))
        line = str(tabs.render())
        assert cell_len(line) == width
        assert all(str(number) in line for number in range(1, count + 1))
        await b.press("tab")
        assert visible(b) == [2]
        assert "2 a ra" in str(tabs.render())


@pytest.mark.parametrize("size", [(200, 50), (120, 35), (80, 24), (60, 20)])
async def test_everything_has_its_place_at_the_common_sizes(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size, settings=panes(4)) as bench:
        await bench.pilot.pause()
        for kind in (StatusBar, BatchPanel, KeyBar):
            region = bench.workbench.query_one(kind).region
            assert region.height > 0
            assert region.bottom <= size[1]
        assert bench.composer.region.height >= 3
        assert bench.pane(1).region.height >= 3
        paged = len(visible(bench)) < 4
        assert bench.workbench.query_one(TabStrip).display == paged
        assert paged == (size[0] < 100)


async def test_a_small_terminal_keeps_pane_and_composer_a_tiny_one_a_line_and_both_recover(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(120, 35)) as bench:
        await bench.send("hello")
        await bench.until_idle()
        await bench.pilot.resize_terminal(50, 15)
        assert bench.composer.region.height + bench.pane(1).region.height == 15
        assert not bench.workbench.query_one(StatusBar).display
        await bench.pilot.resize_terminal(19, 5)
        assert bench.workbench.query_one("#no-room").region.size == (19, 5)
        await bench.pilot.resize_terminal(120, 35)
        await bench.pilot.pause()
        assert visible(bench) == [1, 2]
        assert not bench.workbench.query_one("#no-room").display
        assert "Why a circle" in bench.shown(1)
        await bench.send("still here")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.DONE


@pytest.mark.parametrize("small", [(19, 5), (120, 1), (1, 35)])
async def test_the_focus_is_where_it_was_after_a_terminal_too_small_for_anything(
    open_bench: OpenBench, small: tuple[int, int]
) -> None:
    async with open_bench(settings=panes(3)) as bench:
        for place in (bench.composer, bench.pane(2)):
            await bench.pilot.resize_terminal(*small)
            await bench.pilot.pause()
            await bench.pilot.resize_terminal(120, 35)
            await bench.pilot.pause()
            assert bench.app.focused is place or place is bench.pane(2)
            await bench.press("escape", "2")
            assert bench.app.focused is bench.pane(2)
        await bench.press("i", "h", "i")
        assert bench.composer.text == "hi"


async def test_a_pane_keeps_the_focus_under_the_full_screen_panel(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("escape")
        panel = bench.workbench.query_one(BatchPanel)
        for _ in Mode:
            await bench.press("f3")
            await bench.pilot.pause()
            assert bench.app.focused is bench.pane(1), panel.mode


async def test_keys_act_even_where_nothing_has_the_focus(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        bench.workbench.set_focus(None)
        await bench.press("f1")
        assert isinstance(bench.app.screen, Help)
        await bench.press("escape", "i")
        assert bench.app.focused is bench.composer


async def test_panes_come_and_go_up_to_eight_and_keep_their_numbers(open_bench: OpenBench) -> None:
    async with open_bench(size=(200, 50)) as bench:
        await bench.press("escape", *["plus"] * 7)
        numbers = [pane.number for pane in bench.workbench.session.panes]
        assert numbers == list(range(1, 9))
        assert any("8 panes" in notice for notice in bench.notices())
        assert visible(bench) == numbers
        await bench.press("3", "x")
        await bench.until(lambda: len(bench.workbench.session.panes) == 7)
        assert bench.workbench.session.active.number == 4
        await bench.press("plus")
        await bench.until(lambda: len(bench.workbench.session.panes) == 8)
        assert bench.workbench.session.active.number == 3
        assert [pane.id for pane in bench.workbench.grid.children][2] == "pane-3"


async def test_what_is_sent_while_a_pane_s_connection_is_closing_goes_to_the_others(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, finish = asyncio.Event(), Run.finish

    async def late(run: Run) -> None:
        await gate.wait()
        await finish(run)

    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(2).status is TurnStatus.RUNNING)
        monkeypatch.setattr(Run, "finish", late)
        closing = bench.conversation(2)
        try:
            await bench.press("escape", "2", "x", "enter")
            bench.workbench.send("meanwhile")
            assert bench.conversation(1).pending == ["meanwhile"]
            assert [turn.prompt for turn in closing.turns] == ["run on"]
            await bench.press("plus")
            assert bench.conversation(2) is not closing
        finally:
            gate.set()
        await bench.until(lambda: closing.turns[-1].status is TurnStatus.STOPPED)


async def test_closing_a_busy_pane_asks_and_frees_its_slot(open_bench: OpenBench) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(2).status is TurnStatus.RUNNING)
        await bench.press("escape", "2", "x")
        assert isinstance(bench.app.screen, Confirm)
        await bench.press("escape")
        assert len(bench.workbench.session.panes) == 2
        await bench.press("x", "enter")
        await bench.until(lambda: len(bench.workbench.session.panes) == 1)
        await bench.until(lambda: len(bench.server.engine.running) == 1)  # type: ignore[union-attr]
        await bench.press("x")
        assert len(bench.workbench.session.panes) == 1


async def test_closing_a_pane_with_answers_asks_and_an_empty_one_goes_at_once(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(3)) as bench:
        await bench.press("ctrl+t")
        await bench.send("keep this")
        await bench.until_idle()
        await bench.press("escape", "x")
        assert isinstance(bench.app.screen, Confirm)
        assert "holds 1 prompt and 1 answer." in shown(bench, "Static")
        bench.turn(1).answer = ""
        await bench.press("escape", "x")
        assert "holds 1 prompt, no answer." in shown(bench, "Static")
        await bench.press("escape", "2", "x")
        await bench.until(lambda: [p.number for p in bench.workbench.session.panes] == [1, 3])


async def test_the_composer_says_where_enter_goes(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(3)) as bench:
        assert "to 1 2 3  broadcast" in str(bench.composer.border_title)
        await bench.press("ctrl+t")
        assert "to 1 only" in str(bench.composer.border_title)
        await bench.press("tab")
        assert "to 2 only" in str(bench.composer.border_title)
        await bench.press("escape", "1", "space", "3", "space")
        assert "to 1 3  chosen" in str(bench.composer.border_title)
        assert bench.pane(1).has_class("-target")
        assert not bench.pane(2).has_class("-target")
        await bench.press("i")
        await bench.send("for two")
        assert [bool(bench.conversation(n).turns) for n in (1, 2, 3)] == [True, False, True]


async def test_zoom_fills_the_screen_and_returns_to_the_same_line(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(max_tokens=400)) as bench:
        await bench.send("a long one")
        await bench.until_idle()
        transcript = bench.pane(1).transcript
        await bench.press("escape", *["ctrl+u"] * 3)
        before, line = transcript.scroll_y, transcript.render_line(0).text
        await bench.press("z")
        await bench.pilot.pause()
        assert visible(bench) == [1]
        assert bench.pane(1).region.width == 120
        await bench.press("j", "z")
        await bench.pilot.pause()
        await bench.until(lambda: transcript.scroll_y == before)
        assert transcript.render_line(0).text == line
        assert visible(bench) == [1, 2]


async def test_a_pane_that_is_drawn_anew_comes_back_to_the_same_line(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        pane, workers = bench.pane(1), bench.app.workers
        for n in range(4):
            turn = bench.conversation(1).begin(f"prompt {n}")
            turn.answer = "\n".join(f"|{n}|{m}|\n|-|-|\n|1|{'word ' * 20}|\n" for m in range(9))
            turn.status = TurnStatus.DONE
        pane.show()
        await workers.wait_for_complete()
        await bench.press("escape", *["ctrl+u"] * 3)
        line = pane.transcript.render_line(0).text
        back = pane.keep_scroll()
        pane.show()
        back()
        await workers.wait_for_complete()
        await bench.pilot.pause()
        assert pane.transcript.render_line(0).text == line


async def test_f3_goes_through_the_panel_s_sizes_and_the_last_one_is_remembered(
    open_bench: OpenBench, paths
) -> None:  # type: ignore[no-untyped-def]
    async with open_bench() as bench:
        panel = bench.workbench.query_one(BatchPanel)
        assert panel.mode is Mode.MEDIUM
        seen = []
        for _ in range(5):
            await bench.press("f3")
            seen.append(panel.mode)
        assert set(seen) == set(Mode)
        await bench.press("f3")
    assert UiState.load(paths.state).panel == panel.mode
    async with open_bench() as bench:
        assert bench.workbench.query_one(BatchPanel).mode is panel.mode


async def test_f4_goes_through_the_layouts(open_bench: OpenBench) -> None:
    async with open_bench(size=(160, 50), settings=panes(4)) as bench:
        shapes = []
        for _ in Layout:
            shapes.append((bench.workbench.grid.plan.columns, bench.workbench.grid.plan.rows))
            await bench.press("f4")
        assert shapes[0] == (4, 1)
        assert (1, 1) in shapes
        assert any(columns == 1 and rows > 1 for columns, rows in shapes)


async def test_a_system_prompt_is_set_by_keyboard_alone_at_80_by_24(open_bench: OpenBench) -> None:
    async with open_bench(size=(80, 24)) as bench:
        await bench.type("my draft")
        await bench.press("f2")
        form = bench.app.screen
        assert isinstance(form, ParamsForm)
        for key in ("name", "system", "temperature", "seed"):
            assert form.query_one(f"#{key}").region.height > 0
            assert form.query_one(f"#{key}").region.bottom < 24
        await bench.press(*"terse", "tab", *"Be brief.", "tab", "9", "enter")
        assert isinstance(bench.app.screen, ParamsForm)
        assert "temperature takes a number between 0 and 2" in str(
            form.query_one("#problem").render()
        )
        assert bench.app.focused is form.query_one("#temperature")
        await bench.press("backspace", "0", "enter")
        params = bench.conversation(1).params
        assert (params.name, params.system, params.temperature) == ("terse", "Be brief.", 0)
        assert "terse" in str(bench.pane(1).border_title)
        assert bench.composer.text == "my draft"
        assert bench.app.focused is bench.composer


async def test_what_is_typed_ahead_goes_through_the_form_in_order(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        keys = ["f2", *"terse", "tab", *"Be brief.", "tab", "0", "shift+tab", "!", "tab", "down"]
        keys += [*"0.5", "enter", *"and on"]
        for key in keys:  # all at once: the pilot would wait after each
            bench.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await bench.until(lambda: bench.composer.text == "and on")
        params = bench.conversation(1).params
        assert (params.name, params.system) == ("terse", "Be brief.!")
        assert (params.temperature, params.top_p) == (0, 0.5)


async def test_leaving_the_form_changes_nothing(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        before = bench.conversation(1).params
        await bench.press("f2", *"other", "escape")
        assert bench.conversation(1).params == before


async def test_help_lists_every_action(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("f1")
        assert isinstance(bench.app.screen, Help)
        text = "\n".join(str(w.render()) for w in bench.app.screen.query("Static"))
        assert all(action.label in text for action in ACTIONS)
        await bench.press("escape")
        assert bench.app.screen is bench.workbench


@pytest.mark.parametrize("width", [60, 80, 120])
async def test_no_line_of_the_help_is_wider_than_its_place(
    open_bench: OpenBench, width: int
) -> None:
    async with open_bench(size=(width, 20)) as bench:
        await bench.press("f1")
        await bench.pilot.pause()
        table = bench.app.screen.query_one(KeyTable)
        assert table.size.width < width - 4
        lines = str(table.render()).split("\n")
        assert max(map(len, lines)) <= table.size.width
        assert len(lines) == table.size.height


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 35)])
async def test_the_form_shows_every_hint_whole(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size) as bench:
        await bench.press("f2")
        await bench.pilot.pause()
        for hint in bench.app.screen.query(".hint"):
            assert hint.region.width >= len(str(hint.render())) + 1
            assert hint.region.right < size[0]
            assert bench.app.screen.query_one("#problem").region.bottom < size[1]
            assert hint.region in bench.app.screen.region


@pytest.mark.parametrize("size", [(200, 50), (120, 35), (80, 24), (60, 20)])
async def test_a_notice_leaves_names_answers_and_the_batch_in_sight(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size) as bench:
        await bench.send("hello")
        await bench.until_idle()
        bench.app.clear_notifications()
        times = size[0] // 19 + 1
        bench.app.notify("it needs two lines " * times, timeout=60)
        await bench.until(lambda: bench.workbench.query(Toast))
        await bench.pilot.pause()
        toast = bench.workbench.query_one(Toast)
        assert toast.region.height == 2
        text = " ".join(toast.render_line(y).text for y in range(2))
        assert text.split().count("needs") == times
        others = bench.workbench.query("StatusBar, TabStrip, PaneGrid, BatchPanel")
        assert not any(toast.region.overlaps(other.region) for other in others)


async def test_over_another_screen_there_is_no_palette(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("f1", "f12")
        assert isinstance(bench.app.screen, Help)
        await bench.press("escape", "f12")
        assert isinstance(bench.app.screen, CommandPalette)


@pytest.mark.parametrize("size", [(120, 35), (60, 20)])
async def test_the_palette_has_a_line_for_each_action(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size) as bench:
        await bench.press("ctrl+p")
        actions = bench.app.screen.query_one(CommandList)
        await bench.until(lambda: actions.option_count > 40)
        await bench.until(lambda: actions.virtual_size.height == actions.option_count)
        assert "Stop all panes              S " in screen_text(bench.pilot)


async def test_the_palette_finds_an_action_by_its_name_first_and_runs_it(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+p", *"new pane")
        hits = bench.app.screen.query_one(CommandList)
        await bench.until(lambda: [str(hit.prompt)[:8] for hit in hits.options][:1] == ["New pane"])
        await bench.press("enter")
        await bench.until(lambda: len(bench.workbench.session.panes) == 3)


async def test_quitting_asks_once_while_panes_answer_and_a_second_ctrl_q_means_it(
    open_bench: OpenBench,
) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.RUNNING)
        await bench.press("ctrl+q")
        assert isinstance(bench.app.screen, Confirm)
        await bench.press("escape")
        assert bench.app.is_running
        await bench.press("ctrl+q", "ctrl+q")
        await bench.until(lambda: bench.app._exit)


async def test_ctrl_d_deletes_in_a_text_and_quits_from_an_empty_one(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.type("ab")
        await bench.press("home", "ctrl+d")
        assert bench.composer.text == "b"
        await bench.press("ctrl+d")
        assert bench.composer.text == ""
        await bench.press("ctrl+d")
        await bench.until(lambda: bench.app._exit)


async def test_up_and_down_recall_prompts_and_bring_the_draft_back(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        for prompt in ("one", "two"):
            await bench.send(prompt)
            await bench.until_idle()
        await bench.type("draft\nof two lines")
        await bench.press("up")
        assert bench.composer.text.startswith("draft")
        await bench.press("up")
        assert bench.composer.text == "two"
        await bench.press("up", "up")
        assert bench.composer.text == "one"
        await bench.press("down", "down")
        assert bench.composer.text == "draft\nof two lines"


async def test_a_notice_about_the_settings_is_shown_and_the_rest_works(
    open_bench: OpenBench,
) -> None:
    notice = "config.toml:3: modle is not a setting (did you mean model?)"
    async with open_bench(notices=(notice,), settings=Settings(panes=(PaneParams(),))) as bench:
        await bench.until(lambda: notice in bench.notices())
        assert bench.composer.has_focus


async def test_themes_change_under_hundreds_of_blocks(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        transcript = bench.pane(1).transcript
        bench.pane(1).add_class("-spoken")
        for n in range(600):
            transcript.append(f"# block {n}\n- `code`\n")
            transcript.end_answer()
        await bench.until(lambda: "paper" in bench.app.available_themes)
        colours = set()
        for theme in ("paper", "ember"):
            bench.app.theme = theme
            await bench.pilot.pause()
            heading = next(
                segment
                for y in range(transcript.size.height)
                for segment in transcript.render_line(y)
                if "block" in segment.text
            )
            colours.add(heading.style.color)  # type: ignore[union-attr]
        assert len(colours) == 2
        await bench.press(*"typed")
        assert bench.composer.text == "typed"
