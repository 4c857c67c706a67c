"""Sessions that come back as they were left, and what can go wrong with that."""

from __future__ import annotations

from pathlib import Path

from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import Target, TurnStatus
from dspark_tui.engines.address import Server
from dspark_tui.engines.engines import place_of
from dspark_tui.paths import Paths
from dspark_tui.screens.keeping import SessionChosen
from dspark_tui.storage.workspaces import Choice
from dspark_tui.widgets.status_bar import StatusBar
from tests.tui.conftest import ENDLESS, Bench, OpenBench, Requests, fast, panes, slow
from tests.tui.sheets import shown

PAGE = 4096
"""Bytes of SQLite's pages."""


async def quit_bench(bench: Bench) -> None:
    await bench.press("ctrl+q")
    await bench.until(lambda: bench.app._exit)


def damage(database: Path, text: bytes) -> None:
    """Spoil every page of the file that has the text."""
    content = bytearray(database.read_bytes())
    place = content.find(text)
    assert place >= 0
    while place >= 0:
        page = place - place % PAGE
        content[page : page + PAGE] = b"\xff" * PAGE
        place = content.find(text)
    database.write_bytes(content)


async def test_a_session_comes_back_as_it_was_left(open_bench: OpenBench) -> None:
    cold = PaneParams(name="cold", system="Be brief.", temperature=0, max_tokens=20, seed=2**63)
    async with open_bench(settings=Settings(panes=(cold, PaneParams(max_tokens=300)))) as bench:
        await bench.send("to both")
        await bench.until_idle()
        await bench.press("f4", "ctrl+t")
        await bench.type("half a thou")
        bench.pane(2).transcript.scroll_to(y=9, animate=False, immediate=True)
        await bench.pilot.pause()
        left_off = bench.pane(2).transcript.left_off
        assert left_off
        before = [bench.conversation(n) for n in (1, 2)]
        shown = bench.shown(1)
        await quit_bench(bench)
    async with open_bench(settings=panes(5)) as bench:
        session = bench.workbench.session
        assert [pane.params for pane in session.panes] == [pane.params for pane in before]
        for old, new in zip(before, session.panes, strict=True):
            assert [(t.prompt, t.answer, t.status, t.seed) for t in old.turns] == [
                (t.prompt, t.answer, t.status, t.seed) for t in new.turns
            ]
            assert new.turns[0].requests == old.turns[0].requests
        assert session.target is Target.THIS
        assert bench.composer.text == "half a thou"
        assert bench.composer.cursor_location == (0, 11)
        assert bench.workbench.grid.layout_mode == "columns"
        assert bench.shown(1) == shown
        await bench.until(lambda: bench.pane(2).transcript.left_off == left_off)
        await bench.press("ctrl+c", "up")
        assert bench.composer.text == "half a thou"
        await bench.press("up")
        assert bench.composer.text == "to both"


async def test_a_zoomed_pane_is_zoomed_at_the_next_start(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await bench.press("escape", "2", "z")
        await quit_bench(bench)
    async with open_bench() as bench:
        await bench.until(lambda: bench.pane(2).region.width == bench.app.size.width)
        assert not bench.pane(1).display
        await bench.press("escape", "z")
        await bench.until(lambda: bench.pane(1).display)


async def test_all_branches_come_back_and_the_shown_one_is_shown(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.send("once")
        await bench.until_idle()
        await bench.press("escape", "r")
        await bench.until_idle()
        await bench.press("less_than_sign")
        first, second = bench.conversation(1).starts
        assert bench.conversation(1).turns == [first]
        await quit_bench(bench)
    async with open_bench() as bench:
        pane = bench.conversation(1)
        assert [turn.id for turn in pane.starts] == [first.id, second.id]
        assert [turn.id for turn in pane.turns] == [first.id]
        assert "‹ 1/2 ›" in bench.notes(1)
        await bench.press("escape", "greater_than_sign")
        assert pane.turns[0].answer == second.answer


async def test_an_untouched_session_leaves_nothing_behind(
    open_bench: OpenBench, paths: Paths
) -> None:
    async with open_bench(settings=panes(3)) as bench:
        await quit_bench(bench)
    async with open_bench(settings=panes(1)) as bench:
        assert len(bench.workbench.session.panes) == 1


async def test_a_second_workbench_opens_a_session_of_its_own(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as one:
        await one.send("in the first")
        await one.until_idle()
        async with open_bench(settings=panes(2)) as two:
            assert not two.conversation(1).turns
            await two.until(two.notices)
            (notice,) = two.notices()
            assert '"in the first" is open in another window' in notice
            assert "Esc, O lists all" in notice
            await two.send("in the second")
            await two.until_idle()
            await quit_bench(two)
        await one.send("and on")
        await one.until_idle()
        await quit_bench(one)
    async with open_bench() as bench:
        assert [turn.prompt for turn in bench.conversation(1).turns] == ["in the first", "and on"]
        assert {"in the first", "in the second"} <= set(bench.workbench.session.history)


async def test_a_closed_pane_is_gone_for_good(open_bench: OpenBench, paths: Paths) -> None:
    async with open_bench() as bench:
        await bench.send("heliotrope-secret")
        await bench.until_idle()
        await bench.press("escape", "x", "enter")
        await bench.until(lambda: len(bench.workbench.session.panes) == 1)
        await quit_bench(bench)
    async with open_bench() as bench:
        assert [pane.number for pane in bench.workbench.session.panes] == [2]


async def test_broadcast_then_one_pane_then_broadcast_keeps_the_histories_apart(
    open_bench: OpenBench, requests: Requests
) -> None:
    async with open_bench() as bench:
        await bench.send("one")
        await bench.until_idle()
        await bench.press("tab", "ctrl+t")
        await bench.send("two, only here")
        await bench.until_idle()
        await bench.press("ctrl+t")
        await quit_bench(bench)
    async with open_bench() as bench:
        await bench.send("three")
        await bench.until_idle()
        first, second = ([m["content"] for m in messages] for messages, _ in requests[-2:])
        answers = [[t.answer for t in bench.conversation(n).turns[:-1]] for n in (1, 2)]
        assert first == ["one", answers[0][0], "three"]
        assert second == ["one", answers[1][0], "two, only here", answers[1][1], "three"]


async def test_a_text_stays_with_its_conversation_and_goes_along_when_it_is_aimed_anew(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.type("for all")
        await bench.press("ctrl+t")
        assert bench.composer.text == "for all"
        await bench.press("tab")
        assert bench.composer.text == ""
        await bench.type("for two")
        await bench.press("tab")
        assert bench.composer.text == "for all"
        await bench.press("tab")
        assert bench.composer.text == "for two"
        await quit_bench(bench)
    async with open_bench() as bench:
        assert bench.composer.text == "for two"
        await bench.press("tab")
        assert bench.composer.text == "for all"


async def test_an_unsent_text_of_a_closed_pane_is_no_other_pane_s_but_can_be_recalled(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("tab", "ctrl+t")
        await bench.type("for the one to go")
        await bench.press("escape", "x")
        await bench.until(lambda: len(bench.workbench.session.panes) == 1)
        await bench.press("plus", "i")
        assert bench.workbench.session.active.number == 2
        assert bench.composer.text == ""
        await bench.press("up")
        assert bench.composer.text == "for the one to go"


async def queue_two(bench: Bench) -> None:
    for prompt in ("run on", "second", "third"):
        await bench.send(prompt)
    assert bench.conversation(2).pending == ["second", "third"]


async def test_queued_prompts_are_counted_when_leaving_and_come_back_unsent(
    open_bench: OpenBench,
) -> None:
    async with open_bench(slow(), settings=ENDLESS) as bench:
        await queue_two(bench)
        await bench.press("ctrl+q")
        assert "2 panes are answering, and 2 prompts are queued." in shown(bench, "Static")
        await bench.press("enter")
        await bench.until(lambda: bench.app._exit)
    async with open_bench() as bench:
        assert bench.composer.text == "second"
        assert not bench.conversation(1).pending
        await bench.press("up")
        assert bench.composer.text == "third"


async def test_a_draft_keeps_its_place_before_what_was_queued_in_a_session_that_was_left(
    open_bench: OpenBench,
) -> None:
    async with open_bench(slow(), settings=ENDLESS) as bench:
        await queue_two(bench)
        await bench.type("a draft")
        left = bench.workbench
        await bench.press("escape", "O", "ctrl+n", "enter")
        await bench.until(lambda: bench.workbench is not left)
        bench.app.post_message(SessionChosen(Choice(left.opened.journal.workspace.id)))
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.composer.text == "a draft"
        await bench.press("up", "up")
        assert bench.composer.text == "second"


async def test_what_was_streaming_is_there_at_the_end_marked_as_stopped(
    open_bench: OpenBench,
) -> None:
    async with open_bench(slow(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.until(lambda: len(bench.turn(1).answer) > 20)
        turn = bench.turn(1)
        await bench.press("ctrl+q", "enter")
        await bench.until(lambda: bench.app._exit)
    async with open_bench() as bench:
        assert bench.turn(1).status is TurnStatus.STOPPED
        assert bench.turn(1).answer == turn.answer


async def test_what_a_killed_workbench_was_receiving_is_marked_and_can_go_on(
    open_bench: OpenBench, paths: Paths
) -> None:
    async with open_bench(slow(), settings=panes(1, max_tokens=100_000)) as bench:
        await bench.send("run on")
        await bench.until(lambda: len(bench.turn(1).answer) > 20)
        bench.workbench.keep()
        store = bench.app._workspaces.saver
        copied = paths.sessions.with_name("copy.db")
        store.now(lambda store: store._db.execute(f"vacuum into '{copied}'"))
        await bench.press("ctrl+c")
        await bench.until_idle()
    for part in paths.sessions.parent.glob("sessions.db*"):
        part.unlink()
    copied.rename(paths.sessions)
    async with open_bench(fast()) as bench:
        turn = bench.turn(1)
        assert turn.status is TurnStatus.INTERRUPTED
        assert turn.requests[0].reason == ""
        assert turn.requests[0].tokens > 0
        assert "Esc, r sends it again, c goes on" in bench.notes(1)
        assert "interrupted" in str(bench.pane(1).border_subtitle)
        half = turn.answer
        bench.conversation(1).params = PaneParams(max_tokens=5)
        await bench.press("escape", "c")
        await bench.until_idle()
        assert turn.status is TurnStatus.DONE
        assert turn.answer.startswith(half)
        assert len(turn.answer) > len(half)
        assert len(turn.requests) == 2


async def test_where_nothing_can_be_written_it_runs_with_one_banner(
    open_bench: OpenBench, paths: Paths
) -> None:
    paths.sessions.parent.write_text("a file where the folder should be")
    async with open_bench(notices=("the log can't be written",)) as bench:
        await bench.send("hello")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.DONE
        (banner,) = bench.notices()
        assert banner.startswith("the log can't be written\n")
        assert "what is said now is not kept" in banner


async def test_a_latest_session_that_is_damaged_is_said_and_another_begun(
    open_bench: OpenBench, paths: Paths
) -> None:
    async with open_bench() as bench:
        await bench.send("damaged " * 300)
        await bench.until_idle()
        await quit_bench(bench)
    damage(paths.sessions, b"damaged " * 300)
    async with open_bench() as bench:
        await bench.until(lambda: any("can't be read" in notice for notice in bench.notices()))
        assert not bench.conversation(1).turns
        await bench.send("hello")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.DONE


async def test_a_broken_file_is_one_line_and_moved_aside(
    open_bench: OpenBench, paths: Paths
) -> None:
    paths.sessions.parent.mkdir(parents=True)
    paths.sessions.write_bytes(b"rubbish" * 1000)
    async with open_bench() as bench:
        await bench.until(lambda: any("sessions.db.broken-1" in n for n in bench.notices()))
        assert paths.sessions.with_name("sessions.db.broken-1").read_bytes() == b"rubbish" * 1000
        await bench.send("hello")
        await bench.until_idle()
        await quit_bench(bench)
    async with open_bench() as bench:
        assert bench.turn(1).prompt == "hello"


async def test_a_chat_whose_model_was_deleted_opens_and_its_panes_say_so(
    open_bench: OpenBench, paths: Paths, tmp_path: Path
) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await quit_bench(bench)
    model = tmp_path / "deleted"
    place = place_of("", Settings(model=str(model)), paths)
    assert not isinstance(place, Server)
    async with open_bench(size=(250, 35), place=place) as bench:
        assert "Why a circle" in bench.shown(1)
        missing = f"there is no model at {model}"
        for number in (1, 2):
            pane = bench.pane(number)
            await bench.until(lambda pane=pane: missing in str(pane.border_subtitle))
        assert missing in str(bench.workbench.query_one(StatusBar).render())
