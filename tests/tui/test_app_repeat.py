"""One prompt asked several times at once: what comes, what is kept of it, what leaving does."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from textual.widgets import OptionList

from dspark_tui.conversation.turns import Origin, TurnStatus
from dspark_tui.paths import Paths
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.repeat import Repeat
from dspark_tui.storage.export import messages_text
from dspark_tui.widgets.batch_panel import BatchPanel, Mode
from dspark_tui.widgets.transcript import Transcript
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, fast, panes, slow
from tests.tui.sheets import asked, hint, listed, shown

SECRET = "xylophone-heist-4711"


async def repeated(bench: Bench, prompt: str, requests: int = 2) -> None:
    """Twice in each pane, with all answers there; the screen with them is open."""
    await bench.type(prompt)
    await bench.press("escape", "K", "minus", "minus", "minus", "enter")
    answered = f"{requests} of {requests} answered"
    await bench.until(lambda: answered in shown(bench, "#state"))
    await bench.until(lambda: "Esc closes" in hint(bench))


async def test_repeats_go_out_as_one_batch_and_are_grouped_by_pane(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_bench(slow(), settings=panes(2)) as bench:
        await bench.type("Say it again.")
        await bench.press("escape", "K")
        await bench.until(lambda: isinstance(bench.app.screen, Repeat))
        assert "5 times, 2 panes: 10 requests" in shown(bench, "#plan")
        await bench.press("minus", "minus", "s", "enter")
        assert "3 times, 2 panes: 6 requests in one batch, always the same" in shown(bench, "#plan")
        await bench.until(lambda: "6 of 6 answered" in shown(bench, "#state"))
        await bench.until(lambda: len(listed(bench)) == 4)
        heading, first, other, _ = listed(bench)
        assert heading == "1   3 of 3 identical"
        assert "3x" in first
        assert other == "2   3 of 3 identical"
        widths = bench.link.live.widths
        await bench.until(lambda: any(sample.width > 1 for sample in widths.samples))
        await bench.press("w")
        await bench.until(lambda: list(tmp_path.glob("repeats-*.csv")))
        (file,) = tmp_path.glob("repeats-*.csv")
        with file.open(newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
        assert [row["number"] for row in rows] == ["1", "2", "3"] * 2
        assert {row["group"] for row in rows} == {"1"}
        await bench.press("escape")
        assert bench.composer.text == "Say it again."
        assert not bench.conversation(1).turns


async def test_the_list_has_the_rows_it_needs_and_the_answer_the_rest(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(8), size=(120, 50)) as bench:
        await repeated(bench, "hello", 16)
        screen = bench.app.screen
        found, answer = screen.query_one(OptionList), screen.query_one(Transcript)
        await bench.until(lambda: found.size.height == len(listed(bench)) == 16)
        assert answer.size.height >= 16
        await bench.pilot.resize_terminal(80, 24)
        await bench.until(lambda: answer.size.height < found.size.height < 10)
        assert answer.size.height >= 4


async def test_what_is_below_in_a_long_answer_is_not_called_new(open_bench: OpenBench) -> None:
    settings = panes(2, max_tokens=300)
    async with open_bench(fast(tokens=300), settings=settings, size=(60, 24)) as bench:
        await repeated(bench, "hello", 4)
        answer = bench.app.screen.query_one(Transcript)
        for _ in range(2):
            await bench.press("down")
            await bench.until(lambda: answer.scroll_y == 0 and answer.max_scroll_y > 5)
            assert answer.new_lines == 0


async def test_the_batch_is_shown_with_what_is_asked_here_only(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await repeated(bench, "hello")
        assert bench.app.screen.query_one(BatchPanel).mode is Mode.SMALL
        await bench.press("escape", "K")
        await bench.until(lambda: "2 of 2 answered" in shown(bench, "#state"))
        assert bench.app.screen.query_one(BatchPanel).mode is Mode.OFF
        await bench.press("r")
        assert bench.app.screen.query_one(BatchPanel).mode is Mode.SMALL


async def test_digits_say_how_often(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.type("Say it again.")
        await bench.press("escape", "K")
        for key, times in (("1", 2), ("2", 12), ("7", 7), ("plus", 8), ("2", 2), ("5", 25)):
            await bench.press(key)
            assert shown(bench, "#plan").startswith(f"{times} times: ")
        await bench.press("3", "enter", "9")
        assert shown(bench, "#plan").startswith("3 times: ")


async def test_esc_stops_repeats_and_says_how_many_have_no_answer(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await asked(bench)
        assert bench.server is not None
        bench.server.script.slots = 0  # whatever comes now waits for ever
        await bench.press("K", "enter")
        await bench.until(lambda: len(bench.link.live.queue) == 5)
        assert "Esc stops" in hint(bench)
        await bench.press("escape")
        await bench.until(lambda: not bench.link.live.active)
        await bench.until(lambda: "Esc closes" in hint(bench))
        await bench.until(lambda: "0 of 5 answered   5 stopped or failed" in shown(bench, "#state"))
        assert listed(bench)[1].split() == ["5x", "stopped"]
        await bench.press("escape")
        assert bench.app.screen is bench.workbench


async def test_there_must_be_something_to_repeat(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(2)) as bench:
        await bench.press("escape", "K")
        assert bench.notices() == ["write a prompt first, or send one"]
        await bench.press("i")
        await asked(bench)
        await bench.press("b", "K")
        assert bench.app.screen is bench.workbench
        assert "who is who" in bench.notices()[-1]


async def test_the_answers_are_back_after_reopening_and_can_be_asked_anew(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await repeated(bench, "Say it again.")
        before = listed(bench)
        await bench.press("escape", "ctrl+q")
        await bench.until(lambda: bench.app._exit)
    async with open_bench(settings=panes(1)) as bench:
        assert not bench.conversation(1).turns
        assert bench.composer.text == "Say it again."
        await bench.press("escape", "K")
        await bench.until(lambda: listed(bench) == before)
        assert shown(bench, "#plan").startswith("asked ")
        assert "2 of 2 answered" in shown(bench, "#state")
        await bench.press("enter")
        assert "Esc closes" in hint(bench)
        await bench.press("r", "minus")
        assert listed(bench) == []
        assert "4 times: 4 requests" in shown(bench, "#plan")
        await bench.press("enter")
        await bench.until(lambda: "4 of 4 answered" in shown(bench, "#state"))
        assert len(bench.conversation(1).starts) == 6


async def test_the_answers_are_versions_of_the_turn_and_found_and_exported(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.send("Say it again.")
        await bench.until_idle()
        first = bench.turn(1)
        await repeated(bench, "Say it again.")
        await bench.press("escape")
        assert bench.conversation(1).turns == [first]
        await bench.until(lambda: "1/3" in bench.notes(1))
        await bench.press("i", *["backspace"] * 20, "escape", "greater_than_sign")
        assert bench.turn(1).origin is Origin.REPEAT
        assert "2/3 ›  repeat" in bench.notes(1)
        bench.workbench.keep()
        found = await bench.workbench.workspaces.saver.ask(lambda s: s.search("droplet"))
        assert [hit.turn for hit in found] == [t.id for t in reversed(bench.conversation(1).starts)]
        exported = messages_text([bench.conversation(1)], ".csv")
        assert exported.count(",repeat,") == 4


async def test_closing_the_pane_asks_and_deletes_its_repeats_for_good(
    open_bench: OpenBench, paths: Paths
) -> None:
    async with open_bench(settings=panes(2)) as bench:
        await bench.press("ctrl+t")
        await repeated(bench, SECRET)
        await bench.press("escape", "i", *["backspace"] * len(SECRET), "escape")
        bench.workbench.keep()
        await bench.workbench.workspaces.saver.ask(lambda _: None)
        assert any(SECRET.encode() in file.read_bytes() for file in database(paths))
        await bench.press("x")
        assert isinstance(bench.app.screen, Confirm)
        await bench.press("enter")
        await bench.until(lambda: len(bench.workbench.session.panes) == 1)
        await bench.press("ctrl+q")
        await bench.until(lambda: bench.app._exit)
    assert not any(SECRET.encode() in file.read_bytes() for file in database(paths))


def database(paths: Paths) -> list[Path]:
    return [file for file in paths.sessions.parent.rglob("*") if file.is_file()]


async def test_quitting_asks_once_while_a_prompt_is_repeated_and_what_came_is_kept(
    open_bench: OpenBench,
) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.type("run on")
        await bench.press("ctrl+t", "escape", "K", "enter")
        turns = bench.conversation(1).starts
        await bench.until(lambda: all(turn.answer for turn in turns))
        await bench.press("ctrl+q")
        assert isinstance(bench.app.screen, Confirm)
        await bench.press("escape")
        assert isinstance(bench.app.screen, Repeat)
        assert "Esc stops" in hint(bench)
        await bench.press("ctrl+q", "ctrl+q")
        await bench.until(lambda: bench.app._exit)
    async with open_bench(settings=ENDLESS) as bench:
        kept = bench.conversation(1).starts
        assert [turn.status for turn in kept] == [TurnStatus.STOPPED] * 5
        assert [turn.answer for turn in kept] == [turn.answer for turn in turns]
        assert all(turn.requests[0].ended for turn in kept)


async def test_panes_that_are_answering_are_not_repeated(open_bench: OpenBench) -> None:
    async with open_bench(calm(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.press("escape", "K")
        assert bench.app.screen is bench.workbench
        assert "panes are answering" in bench.notices()[-1]
