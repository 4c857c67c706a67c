"""Panes set against each other: differences, titles, votes, blind order, figures, repeats."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from textual.content import Content

from dspark_tui.appearance.glyphs import DEFAULT
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.votes import Vote
from dspark_tui.screens.broadcast import BroadcastFigures
from dspark_tui.screens.compare import Compare
from dspark_tui.widgets.batch_panel import BatchPanel
from dspark_tui.widgets.composer import Composer
from dspark_tui.widgets.diff_view import DiffView
from dspark_tui.widgets.tab_strip import TabStrip
from tests.tui.conftest import ENDLESS, Bench, OpenBench, calm, fast, panes
from tests.tui.sheets import asked, shown
from tests.tui.stage import lines

SETTINGS = Settings(
    panes=(
        PaneParams(name="control", temperature=0, max_tokens=12),
        PaneParams(name="hot", temperature=1.2, seed=7, max_tokens=15),
        PaneParams(name="terse", temperature=0, system="Be terse.", max_tokens=12),
    )
)


def title(bench: Bench, number: int) -> str:
    return Content.from_markup(bench.pane(number).border_title or "").plain


# ---- differences


async def diff_rows(bench: Bench) -> list[str]:
    await bench.until(lambda: isinstance(bench.app.screen, Compare))
    view = bench.app.screen.query_one(DiffView)
    await bench.until(lambda: view.virtual_size.height)
    return lines(view)


async def test_a_marked_pane_is_compared_with_the_active_one(open_bench: OpenBench) -> None:
    async with open_bench(size=(120, 35), settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("m", "2", "d")
        rows = await diff_rows(bench)
        assert "marked" in title(bench, 1)
        assert any(" │ " in row and "{+" in row for row in rows)
        words = shown(bench, "#counts")
        assert "-0 removed" in words
        assert "equal" in words
        assert "% alike" in words
        await bench.press("escape", "1", "m")
        assert "marked" not in title(bench, 1)


async def test_a_narrow_terminal_has_one_column(open_bench: OpenBench) -> None:
    async with open_bench(size=(80, 24), settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("m", "2", "d")
        rows = await diff_rows(bench)
        assert any("{+" in row for row in rows)
        assert not any(" │ " in row for row in rows)


@pytest.mark.parametrize("right", ["no more", "much more of it " * 200])
async def test_no_row_goes_on_under_the_scrollbar(open_bench: OpenBench, right: str) -> None:
    async with open_bench(size=(60, 20)) as bench:
        await bench.app.push_screen(Compare("word " * 50, right, ("1", "2"), DEFAULT))
        await diff_rows(bench)
        view = bench.app.screen.query_one(DiffView)
        await bench.until(lambda: view.show_vertical_scrollbar == (len(right) > 100))

        def fits() -> bool:
            visible = view.scrollable_content_region.width
            return visible - 4 <= max(len(row.rstrip()) for row in lines(view)) <= visible

        await bench.until(fits)  # laid out anew beside a scrollbar


async def test_u_makes_one_column_of_two_and_back(open_bench: OpenBench) -> None:
    async with open_bench(size=(120, 35), settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("m", "2", "d")
        await diff_rows(bench)
        view = bench.app.screen.query_one(DiffView)
        await bench.press("u")
        await bench.until(lambda: not any(" │ " in row for row in lines(view)))
        await bench.press("u")
        await bench.until(lambda: any(" │ " in row for row in lines(view)))


async def test_two_panes_need_no_mark(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(2)) as bench:
        await bench.press("escape", "d")
        assert bench.notices() == ["pane 1 has no answer yet"]
        await bench.press("i")
        await asked(bench)
        await bench.press("d")
        await diff_rows(bench)
        assert "words: all" in shown(bench, "#counts")


async def test_more_panes_need_a_mark_and_two_are_enough(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(3)) as bench:
        await bench.press("escape", "d", "m", "2", "m", "3", "m")
        first, second = bench.notices()
        assert "m marks" in first
        assert "two panes are marked" in second
        assert "marked" not in title(bench, 3)


async def test_titles_say_what_differs_from_the_first_pane(open_bench: OpenBench) -> None:
    async with open_bench(size=(200, 50), settings=SETTINGS) as bench:
        assert title(bench, 1).split() == ["›", "1", "control"]
        assert title(bench, 2).split("  ")[1:] == ["T1.2", "max 15", "seed 7"]
        assert "sys: Be terse." in title(bench, 3)
        assert "T" not in title(bench, 3).replace("terse", "")
        bench.conversation(1).params = bench.conversation(2).params
        bench.workbench.describe()
        assert title(bench, 2).split() == ["›", "2", "hot"]


async def test_a_long_system_prompt_hides_neither_a_temperature_nor_a_mark(
    open_bench: OpenBench,
) -> None:
    long = PaneParams(name="long", system="Speak like a pirate, all the time.", temperature=1.1)
    settings = Settings(panes=(PaneParams(), long))
    async with open_bench(size=(80, 24), settings=settings) as bench:
        await bench.press("escape", "2", "m")
        parts = title(bench, 2).split("  ")
        assert parts[1:3] == ["marked", "T1.1"]
        assert parts[3] == "sys: Speak like a pirate, all the time."
        await bench.press("i")
        await asked(bench)
        await bench.press("B")
        await bench.until(lambda: "2 long  T1.1  sys" in shown(bench, "#table"))


# ---- votes


async def test_a_vote_is_counted_and_taken_back_and_two_are_a_tie(open_bench: OpenBench) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await bench.press("escape", "v")
        assert "the latest prompt that several panes got" in bench.notices()[0]
        await bench.press("i")
        await asked(bench)
        await bench.press("2", "v")
        assert "voted" in title(bench, 2)
        assert bench.workbench.session.votes == [
            Vote(
                "Explain rainbows.",
                ("1 control", "2 hot  T1.2  max 15  seed 7", "3 terse  sys: Be terse."),
                winners=["2 hot  T1.2  max 15  seed 7"],
            )
        ]
        await bench.press("1", "v")
        assert "1 control: won 0, tied 1 of 1" in bench.notices()[-1]
        await bench.press("v", "2", "v")
        assert bench.workbench.session.votes == []
        assert "voted" not in title(bench, 1) + title(bench, 2)


async def test_a_prompt_to_one_pane_is_no_broadcast(open_bench: OpenBench) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("v", "ctrl+t", "i")
        await bench.send("And to you alone?")
        await bench.until_idle()
        assert len(bench.workbench.broadcasts) == 1
        assert "voted" in title(bench, 1)


async def test_a_new_broadcast_is_voted_on_anew(open_bench: OpenBench) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("v", "i")
        await asked(bench)
        assert "voted" not in title(bench, 1)
        await bench.press("v")
        assert len(bench.workbench.session.votes) == 2
        assert "won 2 of 2" in bench.notices()[-1]


async def test_votes_and_figures_are_there_when_the_session_is_opened_again(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("2", "v")
        votes = bench.workbench.session.votes
    async with open_bench(settings=SETTINGS) as bench:
        assert bench.workbench.session.votes == votes
        assert "voted" in title(bench, 2)
        await bench.press("escape", "B")
        await bench.until(lambda: "voted" in shown(bench, "#table"))
        await bench.press("escape", "2", "v")
        assert bench.workbench.session.votes == []


async def test_blind_hides_who_is_who_until_a_vote(open_bench: OpenBench) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("m", "b")
        session = bench.workbench.session
        letters = [title(bench, pane.number).replace("›", "").strip() for pane in session.panes]
        assert letters == ["A", "B", "C"]
        assert session.active is session.panes[0]
        places = [bench.pane(pane.number).region.x for pane in session.panes]
        assert places == sorted(places)
        assert "to A B C" in str(bench.workbench.query_one(Composer).border_title)
        assert not bench.workbench.query_one(BatchPanel).display
        await bench.press("f2", "R", "w", "W", "K")  # forms and files have names
        assert bench.app.screen is bench.workbench
        await bench.press("3")
        assert session.active is session.panes[2]
        await bench.press("v")
        assert [pane.number for pane in session.panes] == [1, 2, 3]
        assert [title(bench, number).split()[1] for number in (1, 2, 3)] == ["1", "2", "3"]
        assert session.votes[0].blind
        assert session.votes[0].winners[0].startswith(session.active.label)
        assert "voted" in title(bench, session.active.number)
        assert bench.workbench.query_one(BatchPanel).display


async def test_blind_outlives_the_program(open_bench: OpenBench) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("b")
        order = [pane.number for pane in bench.workbench.session.panes]
        await bench.press("q")
        await bench.until(lambda: bench.app._exit)
    async with open_bench(settings=SETTINGS) as bench:
        session = bench.workbench.session
        assert [pane.number for pane in session.panes] == order
        assert [pane.title for pane in session.panes] == ["A", "B", "C"]
        places = [bench.pane(number).region.x for number in order]
        assert places == sorted(places)
        assert not bench.workbench.query_one(BatchPanel).display
        await bench.press("escape", "v")
        assert [pane.number for pane in session.panes] == [1, 2, 3]
        assert session.votes[0].blind


async def test_an_earlier_vote_does_not_tell_who_is_who(open_bench: OpenBench) -> None:
    async with open_bench(settings=SETTINGS) as bench:
        await asked(bench)
        await bench.press("2", "v")
        assert "voted" in title(bench, 2)
        await bench.press("b")
        assert not [number for number in (1, 2, 3) if "voted" in title(bench, number)]
        await bench.press("b")
        assert "voted" in title(bench, 2)


async def test_blind_ends_with_b_and_with_a_new_pane_and_tabs_hide_names_too(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(80, 24), settings=SETTINGS) as bench:
        tabs = bench.workbench.query_one(TabStrip)
        await bench.press("escape", "b")
        await bench.until(lambda: "control" not in str(tabs.render()))
        assert "A" in str(tabs.render())
        await bench.press("b")
        await bench.until(lambda: "1 control" in str(tabs.render()))
        await bench.press("b", "plus")
        await bench.until(lambda: len(bench.workbench.session.panes) == 4)
        assert [pane.title for pane in bench.workbench.session.panes][:2] == ["1 control", "2 hot"]


async def test_one_pane_alone_can_t_be_blind(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.press("escape", "b")
        assert bench.conversation(1).alias == ""


# ---- figures


async def test_figures_are_those_of_the_requests_records(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_bench(settings=SETTINGS) as bench:
        await bench.press("escape", "B")
        assert "no prompt went to several panes" in bench.notices()[0]
        await bench.press("i")
        await asked(bench)
        await bench.press("B")
        await bench.until(lambda: isinstance(bench.app.screen, BroadcastFigures))
        await bench.until(lambda: "3 terse" in shown(bench, "#table"))
        records = [bench.turn(number).requests[-1] for number in (1, 2, 3)]
        for record, row in zip(records, shown(bench, "#table").split("\n")[1:], strict=True):
            assert f"{record.first:.2f}" in row
            assert f"{record.ended:.2f}" in row
            assert "token limit" in row
        ends = [record.sent + (record.last or 0.0) for record in records]
        seconds = max(ends) - min(record.sent for record in records)
        assert f"{39 / seconds:.1f} tok/s = 39 tok / {seconds:.2f} s" in shown(bench, "#total")
        assert "12 tokens is too short to tell" in shown(bench, "#verdict")
        await bench.press("w")
        await bench.until(lambda: list(tmp_path.glob("broadcast-*.csv")))
        (file,) = tmp_path.glob("broadcast-*.csv")
        with file.open(newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
        assert [row["name"] for row in rows] == ["control", "hot", "terse"]
        assert [row["answer"] for row in rows] == [bench.turn(n).answer for n in (1, 2, 3)]
        assert [row["system"] for row in rows] == ["", "", "Be terse."]
        assert [json.loads(row["sampling"])["temperature"] for row in rows] == [0, 1.2, 0]
        assert {row["model"] for row in rows} == {"scripted-1"}


async def test_while_answers_run_the_figures_tell_of_no_end(open_bench: OpenBench) -> None:
    async with open_bench(fast(tokens=100_000), settings=ENDLESS) as bench:
        await bench.send("to both")
        await bench.press("escape", "B")
        await bench.until(lambda: "so far; the verdict comes" in shown(bench, "#verdict"))
        assert "ended together" not in shown(bench, "#verdict")
        await bench.press("escape", "S")
        await bench.until_idle()
        await bench.press("B")
        await bench.until(lambda: "All 2 ran together and ended" in shown(bench, "#verdict"))


async def test_where_a_verdict_can_never_come_the_figures_say_why(open_bench: OpenBench) -> None:
    async with open_bench(calm(rate=20.0), settings=ENDLESS) as bench:
        await bench.press("ctrl+t")
        await bench.send("to one")
        await bench.press("ctrl+t")
        await bench.send("to both")  # where one still answers, it waits
        await bench.until(lambda: len(bench.turn(2).answer.split()) > 20)
        first = bench.workbench.runs.of(bench.conversation(1))
        assert first is not None
        first.stop()
        await bench.until(lambda: len(bench.conversation(1).turns) == 2)
        await bench.press("escape", "B")
        await bench.until(lambda: shown(bench, "#verdict") == "no verdict yet")
        await bench.press("escape", "S")
        await bench.until_idle()
        await bench.press("B")
        await bench.until(lambda: "no two answers began together" in shown(bench, "#verdict"))


async def test_a_folder_that_can_t_be_written_is_one_line(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "file" / "folder"
    (tmp_path / "file").touch()
    monkeypatch.setattr(Path, "cwd", lambda: gone)
    async with open_bench(settings=panes(2)) as bench:
        await asked(bench)
        await bench.press("B", "w")
        await bench.until(lambda: any("can't be written" in text for text in bench.notices()))
