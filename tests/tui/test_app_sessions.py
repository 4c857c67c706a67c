"""The list of sessions: opening, naming, deleting, and finding what was ever said."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.widgets import OptionList

from dspark_tui.conversation.turns import TurnStatus
from dspark_tui.engines.entries import EngineEntry
from dspark_tui.paths import Paths
from dspark_tui.screens.sessions import Sessions
from dspark_tui.widgets.status_bar import StatusBar
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, fast, panes
from tests.tui.scripted_engine import ScriptedServer
from tests.tui.stage import lines
from tests.tui.test_app_engines import on


async def say(bench: Bench, prompt: str) -> None:
    await bench.send(prompt)
    await bench.until_idle()


async def new_session(bench: Bench) -> None:
    old = bench.workbench
    await bench.press("escape", "O")
    await bench.until(lambda: listed(bench))
    await bench.press("ctrl+n")
    await bench.until(lambda: bench.workbench is not old and bench.app.screen is bench.workbench)


def listed(bench: Bench) -> list[str]:
    screen = bench.app.screen
    if not isinstance(screen, Sessions):
        return []
    options = screen.query_one(OptionList)
    return [str(options.get_option_at_index(n).prompt) for n in range(options.option_count)]


async def test_sessions_are_opened_from_the_list_as_they_were_left(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await say(bench, "about rainbows")
        await bench.type("a draft")
        await new_session(bench)
        assert not bench.conversation(1).turns
        assert bench.composer.text == ""
        await say(bench, "about clouds")
        await bench.press("escape", "O")
        await bench.until(lambda: len(listed(bench)) == 2)
        assert "about clouds" in listed(bench)[0]
        assert "open here" in listed(bench)[0]
        await bench.press("down", "enter")
        await bench.until(lambda: bench.app.screen is bench.workbench)
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.turn(1).prompt == "about rainbows"
        assert bench.composer.text == "a draft"
        await say(bench, "and on")
        assert bench.turn(1).answer


async def test_words_find_a_turn_of_another_session_and_enter_shows_its_branch(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await say(bench, "tell of quokkas")
        await bench.press("escape", "e")
        bench.composer.put("tell of wombats")
        await bench.press("enter")
        await bench.until_idle()
        await new_session(bench)
        await say(bench, "something else")
        await bench.press("escape", "O", *"quokka")
        await bench.until(lambda: any("tell of quokkas" in line for line in listed(bench)[1:]))
        await bench.press("down", "enter")
        await bench.until(lambda: bench.app.screen is bench.workbench)
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.turn(1).prompt == "tell of quokkas"
        assert "tell of quokkas" in bench.shown(1)


def at_top(bench: Bench) -> str:
    return lines(bench.pane(1).transcript)[0].strip()


@pytest.mark.parametrize("size", [(120, 35), (80, 24)])
async def test_a_found_turn_is_in_view_from_its_first_line_on(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size) as bench:
        for n in range(6):
            turn = bench.conversation(1).begin(f"tell of quokka{n}")
            turn.answer, turn.status = "**words** and `more`\n\n" * 50, TurnStatus.DONE
        bench.pane(1).show()
        await bench.press("escape", "2", "O", *"quokka1")
        await bench.until(lambda: listed(bench) == ["  tell of quokka0, 1: tell of quokka1"])
        await bench.press("enter")
        await bench.until(lambda: at_top(bench) == "› tell of quokka1")
        await new_session(bench)
        await bench.press("escape", "O", *"quokka3")
        await bench.until(lambda: listed(bench) == ["  tell of quokka0, 1: tell of quokka3"])
        await bench.press("enter")
        await bench.until(lambda: bench.app.screen is bench.workbench)
        await bench.until(lambda: bench.conversation(1).turns)
        await bench.app.workers.wait_for_complete()
        await bench.until(lambda: at_top(bench) == "› tell of quokka3")


async def test_a_session_is_renamed_and_another_deleted_for_good(
    open_bench: OpenBench, paths: Paths
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await say(bench, "heliotrope secret")
        await new_session(bench)
        await say(bench, "to be kept")
        await bench.press("escape", "O")
        await bench.until(lambda: len(listed(bench)) == 2)
        await bench.press("f2", *"kept", "enter")
        await bench.until(lambda: listed(bench) and listed(bench)[0].startswith("kept "))
        await bench.press("f8")
        assert any("is open" in notice for notice in bench.notices())
        await bench.press("down", "f8", "enter")
        await bench.until(lambda: len(listed(bench)) == 1)
        await bench.press("escape", "ctrl+q")
        await bench.until(lambda: bench.app._exit)
    files = [file for file in paths.sessions.parent.rglob("*") if file.is_file()]
    assert not any(b"heliotrope" in file.read_bytes() for file in files)
    async with open_bench() as bench:
        assert bench.workbench.opened.journal.workspace.name == "kept"


async def test_the_session_that_was_renamed_stays_the_chosen_one(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        for prompt in ("first", "second", "third"):
            await say(bench, prompt)
            await new_session(bench)
        await bench.press("escape", "O")
        await bench.until(lambda: len(listed(bench)) == 3)
        await bench.press("down", "f2", *"chosen", "enter")
        await bench.until(lambda: listed(bench) and listed(bench)[1].startswith("chosen "))
        assert bench.app.screen.query_one(OptionList).highlighted == 1


async def test_what_another_window_has_is_marked_and_refused_before_anything_is_stopped(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1)) as one:
        await say(one, "in the other window")
        async with open_bench(calm(), settings=ENDLESS) as two:
            await two.send("run on")
            await two.until(lambda: two.turn(1).answer)
            await two.press("escape", "O")
            await two.until(lambda: len(listed(two)) == 2)
            (other,) = (n for n in (0, 1) if "in the other window" in listed(two)[n])
            assert listed(two)[other].rstrip().endswith("in use")
            assert listed(two)[1 - other].rstrip().endswith("open here")
            await two.press(*["down"] * other, "enter")
            assert two.notices()[-1] == "another window has it open"
            assert isinstance(two.app.screen, Sessions)
            assert two.workbench.runs


async def test_leaving_a_session_that_is_answering_asks_first(open_bench: OpenBench) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(1).answer)
        turn, old = bench.turn(1), bench.workbench
        await bench.press("escape", "O")
        await bench.until(lambda: listed(bench))
        await bench.press("ctrl+n", "escape")
        assert bench.app.screen is old
        assert bench.workbench.runs
        await bench.press("O")
        await bench.until(lambda: listed(bench))
        await bench.press("ctrl+n", "enter")
        await bench.until(lambda: bench.workbench is not old)
        assert turn.status == "stopped"


LONG = "a name of a session that is longer than any line of a list can show whole, word by word"


@pytest.mark.parametrize("size", [(120, 35), (80, 24), (60, 20)])
async def test_each_session_s_facts_have_their_columns_and_long_names_are_seen_to_be_cut(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size, settings=panes(1)) as bench:
        await say(bench, f"{LONG} quokkas")
        await new_session(bench)
        await say(bench, "short")
        await bench.press("escape", "O")
        await bench.until(lambda: len(listed(bench)) == 2)
        width = bench.app.screen.query_one(OptionList).scrollable_content_region.width
        short, long = listed(bench)
        assert cell_len(short) == cell_len(long) == width
        assert long.rstrip().endswith(("just now", "ago"))
        assert "1 pane     1 turn" in long
        assert "…   1 pane" in long
        assert short.index("1 turn") == long.index("1 turn")
        await bench.press(*"quokkas")
        await bench.until(lambda: "quokkas" in listed(bench)[-1])
        passage = listed(bench)[-1]
        assert "…, 1: …" in passage
        assert cell_len(passage[: passage.index("quokkas") + 7]) <= width


async def test_the_list_is_laid_out_anew_in_another_width(open_bench: OpenBench) -> None:
    async with open_bench(size=(120, 35), settings=panes(1)) as bench:
        await say(bench, LONG)
        await bench.press("escape", "O")
        await bench.until(lambda: listed(bench))
        (wide,) = listed(bench)
        await bench.pilot.resize_terminal(60, 20)
        await bench.until(lambda: cell_len(listed(bench)[0]) < cell_len(wide))
        assert bench.app.screen.query_one(OptionList).highlighted == 0


async def test_leaving_the_list_changes_nothing(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.type("a draft")
        await bench.press("escape", "O", *"words", "escape", "i")
        assert bench.app.screen is bench.workbench
        assert bench.composer.text == "a draft"


def status(bench: Bench) -> str:
    return str(bench.workbench.query_one(StatusBar).render())


async def test_the_session_goes_by_its_first_prompt_or_its_name_at_the_right_end(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(130, 30), settings=panes(1)) as bench:
        await bench.until(lambda: "0 of 8 slots busy" in status(bench))
        condition = status(bench)
        await say(bench, "\n tell of [b]quokkas\n\x1b[31m at length")
        await bench.until(
            lambda: "quokkas" in status(bench) and status(bench).startswith(condition)
        )
        assert status(bench).endswith("   tell of [b]quokkas \u241b[31m at length")
        assert cell_len(status(bench)) == 129
        await bench.press("escape", "O")
        await bench.until(lambda: listed(bench))
        await bench.press("f2", *"marsupials", "enter", "escape")
        await bench.until(lambda: status(bench).endswith("  marsupials"))
        bench.workbench.opened.journal.rename("日本語" * 20)
        await bench.until(lambda: status(bench).endswith("…"))
        assert cell_len(status(bench)) in (128, 129)


async def test_the_top_line_tells_where_a_server_is_as_far_as_there_is_room(
    open_bench: OpenBench,
) -> None:
    with ScriptedServer(fast()) as server:
        host = server.url.removeprefix("http://")
        at = f"0 of 8 slots busy   at {host}"
        url = server.url.replace("http://", "http://me:secret@")
        async with open_bench(place=url, size=(90, 20)) as bench:
            await bench.until(lambda: status(bench) == f" dspark-tui   scripted-1  fp32   {at}")
            await bench.pilot.resize_terminal(60, 20)  # rather than the program's name
            await bench.until(lambda: status(bench) == f" scripted-1  fp32   {at}")
        settings = on("laboratory", laboratory=EngineEntry(url=server.url))
        async with open_bench(settings=settings, size=(90, 20)) as bench:
            await bench.until(
                lambda: status(bench).endswith(f"laboratory  scripted-1  fp32   {at}")
            )
            await bench.pilot.resize_terminal(67, 20)
            await bench.until(lambda: status(bench).endswith(f"busy   at {host[:11]}…"))
            await bench.pilot.resize_terminal(66, 20)
            await bench.until(lambda: status(bench).endswith("slots busy"))


async def test_the_program_s_name_goes_before_any_of_the_condition_does(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(40, 20), settings=panes(1)) as bench:
        await bench.until(lambda: "slots busy" in status(bench))
        assert status(bench).strip() == "scripted-1  fp32   0 of 8 slots busy"
        await bench.pilot.resize_terminal(100, 30)
        await bench.until(lambda: status(bench).startswith(" dspark-tui   scripted-1  fp32"))


async def test_where_the_condition_needs_the_line_it_has_it_all(open_bench: OpenBench) -> None:
    async with open_bench(size=(82, 20), settings=panes(1)) as bench:
        await say(bench, "tell of quokkas")
        await bench.until(lambda: "0 of 8 slots busy" in status(bench))
        assert "quokkas" not in status(bench)
        condition = status(bench)
        await bench.pilot.resize_terminal(100, 30)
        await bench.until(lambda: status(bench).endswith("  tell of quokkas"))
        await bench.until(lambda: status(bench).startswith(condition))
        await bench.pilot.resize_terminal(82, 20)
        await bench.until(lambda: status(bench) == condition)
