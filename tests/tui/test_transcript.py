"""The transcript: text as it came, a reader who is left alone, borders that stay straight."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from wcwidth import wcswidth

from dspark_tui.appearance import glyphs
from dspark_tui.text import markdown_lines
from dspark_tui.text.lines import Line, PlainLine
from dspark_tui.widgets import chat_text, transcript
from dspark_tui.widgets.findable import FindableTranscript, Found
from dspark_tui.widgets.line_painter import LinePainter
from dspark_tui.widgets.transcript import Transcript
from tests.tui.stage import Stage, lines

FENCE = [
    "Look:\n\n``",
    "`python\nfor n in ",
    "range(3):\n",
    "    print(n",
    ")\n",
    "`",
    "``\n\nDone.",
]
NASTY = "[/some/path] a[/]b [bold]x[/bold] [link='"


@asynccontextmanager
async def staged(
    size: tuple[int, int] = (44, 14), view: Transcript | None = None
) -> AsyncIterator[tuple[Transcript, Pilot[None]]]:
    transcript = view or Transcript()
    async with Stage(transcript).run_test(size=size) as pilot:
        yield transcript, pilot


async def wheel(pilot: Pilot[None], view: Transcript, clicks: int) -> None:
    """Turn the wheel over the view, up for negative clicks."""
    kind = MouseScrollUp if clicks < 0 else MouseScrollDown
    for _ in range(abs(clicks)):
        event = kind(view, 2, 2, 0, 0, 0, False, False, False, 2, 2)
        view.post_message(event)
        await pilot.pause()


def answer(view: Transcript, text: str, footer: str = "", marked: str = "") -> None:
    """A whole answer, as one that is stored."""
    view.begin_answer()
    view.append(text)
    view.end_answer(footer, marked)


async def finished(pilot: Pilot[None]) -> None:
    """Wait until what was said is set in type and painted."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def shown(view: Transcript) -> str:
    return "\n".join(line.rstrip() for line in lines(view))


async def test_an_answer_in_pieces_is_the_text_that_was_sent() -> None:
    async with staged() as (view, pilot):
        view.add_user("Explain")
        view.begin_answer()
        for piece in FENCE:
            view.append(piece)
            await pilot.pause()
        view.end_answer("1.2 s  9 tok")
        assert view.last_answer() == "".join(FENCE)
        assert view.source_text() == "> Explain\n\n" + "".join(FENCE)
        assert "    print(n)" in shown(view)
        assert shown(view).rstrip().endswith("Done.\n1.2 s  9 tok")


async def test_a_fence_outlives_a_theme_switch_in_the_middle_of_it() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        for number, piece in enumerate(FENCE):
            view.append(piece)
            pilot.app.theme = ("ember", "paper", "terminal")[number % 3]
            await pilot.pause()
        await view.recompose()
        await pilot.pause()
        assert view.last_answer() == "".join(FENCE)
        assert "for n in range(3):" in shown(view)


async def test_a_theme_switch_restyles_what_is_on_screen() -> None:
    async with staged() as (view, pilot):
        view.add_user("Explain")
        await pilot.pause()
        dark = view.render_line(0)
        pilot.app.theme = "paper"
        await pilot.pause()
        assert view.render_line(0).text == dark.text
        assert [s.style for s in view.render_line(0)] != [s.style for s in dark]


async def test_one_wheel_tick_releases_and_the_end_follows_again() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("line\n" * 50)
        await pilot.pause()
        assert view.following
        await wheel(pilot, view, -1)
        assert not view.following
        view.append("more\n" * 5)
        await pilot.pause()
        assert not view.following
        await wheel(pilot, view, 20)
        assert view.following
        view.append("last\n" * 5 + "end")
        await pilot.pause()
        assert shown(view).endswith("end")


async def test_follow_returns_to_the_end_from_anywhere() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("line\n" * 50)
        view.scroll_to(y=3, animate=False)
        await pilot.pause()
        view.append("tail " * 30 + "end")
        view.follow()
        await pilot.pause()
        assert view.following
        assert view.new_lines == 0
        assert shown(view).endswith("end")


async def test_a_reader_is_not_dragged_and_is_told_what_came() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("\n".join(f"line {n}" for n in range(40)))
        await pilot.pause()
        view.scroll_to(y=view.scroll_y - 10, animate=False)
        await pilot.pause()
        top = lines(view)[0]
        assert view.new_lines == 0
        for _ in range(20):
            view.append("word " * 10)
            await pilot.pause()
        assert lines(view)[0] == top
        assert view.new_lines == view.virtual_size.height - 40 > 10
        assert (
            lines(view)[-1].strip().startswith(f"{glyphs.DEFAULT.below} {view.new_lines} new lin")
        )
        unread = view.new_lines
        view.scroll_to(y=view.scroll_y + 14, animate=False)
        await pilot.pause()
        assert 0 < view.new_lines < unread


TABLE = f"|{'one' * 5}|{'two' * 5}|more|\n|-|-|-|\n|1|2|{'three ' * 30}|"
PARAGRAPH = " ".join(f"[word{n}](http://a.example/{n})" for n in range(40)) + f"\n\n{TABLE}"
"""Many rows, and more of them once it is set in type."""


def long_talk(view: Transcript, text: str) -> Transcript:
    for n in range(6):
        view.add_user(f"question {n}")
        answer(view, f"**{n}**\n\n{text}\n\n{text}")
    return view


@pytest.mark.parametrize("text", ["plain words " * 40, PARAGRAPH])
async def test_what_was_there_before_the_first_layout_is_not_new(text: str) -> None:
    async with staged(view=long_talk(Transcript(), text)) as (view, pilot):
        await finished(pilot)
        view.scroll_relative(y=-6, animate=False)
        await pilot.pause()
        assert not view.following
        assert view.new_lines == 0
        await pilot.resize_terminal(30, 14)
        assert view.new_lines == 0


async def test_what_was_read_to_its_end_is_not_new_once_it_is_set_in_type() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append(PARAGRAPH)
        view.scroll_relative(y=-6, animate=False)
        await pilot.pause()
        before = view.virtual_size.height
        view.end_answer()
        await finished(pilot)
        assert view.virtual_size.height > before
        assert not view.following
        assert view.new_lines == 0


async def test_what_is_found_where_the_view_is_leaves_the_reader_there() -> None:
    async with staged(view=long_talk(FindableTranscript(), "plain words")) as (view, pilot):
        await finished(pilot)
        assert isinstance(view, FindableTranscript)
        assert view.find("plain", -1) == Found(12, 12)
        await pilot.pause()
        assert view.new_lines == 0
        left_off, top = view.left_off, lines(view)[0]
        assert left_off is not None
    async with staged(view=long_talk(Transcript(), "plain words")) as (view, pilot):
        view.resume(left_off)
        await finished(pilot)
        assert lines(view)[0].rstrip() == top.rstrip()


@pytest.mark.parametrize("above_end", [3, 30, 150])
@pytest.mark.parametrize("kept", [10, 1_000])
async def test_a_reader_comes_back_to_the_row_they_left_off_at(
    above_end: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_text, "ROWS_KEPT", kept)
    tops = []
    left_off = None
    for _ in range(3):
        view = long_talk(Transcript(), PARAGRAPH)
        if left_off is not None:
            view.resume(left_off)
        async with staged(view=view) as (_, pilot):
            await finished(pilot)
            if left_off is None:
                view.go_to_start()
                await finished(pilot)
                view.scroll_to(y=view.max_scroll_y - above_end, animate=False)
                await pilot.pause()
            left_off = view.left_off
            tops.append((left_off, lines(view)[0].rstrip()))
            assert view.new_lines == 0
    assert tops == [tops[0]] * 3


async def test_the_scrollbar_shows_where_the_reader_is_and_only_then() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("line\n" * 100)
        await pilot.pause()
        thumb = glyphs.DEFAULT.thumb
        assert thumb not in shown(view)
        view.scroll_to(y=0, animate=False)
        await pilot.pause()
        bar = [line[-1] for line in lines(view)]
        assert bar[0] == thumb
        assert bar.count(thumb) == 1
        view.scroll_to(y=50, animate=False)
        await pilot.pause()
        assert [line[-1] for line in lines(view)].index(thumb) in (5, 6)


async def test_new_text_in_the_last_row_alone_is_not_a_new_line() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("line\n" * 30)
        view.scroll_to(y=2, animate=False)
        await pilot.pause()
        view.append("one more word")
        assert view.new_lines == 0


@pytest.mark.parametrize(
    "text",
    [
        "☺️ ❤️ 1️⃣",
        "👩‍👩‍👧 👍🏽 🇩🇪",
        "e\u0301o\u0308",
        "שלום עולם",
        "مرحبا",
        "光线进入水滴" * 9,
        "\x1b[2J\x07\t\x9b",
    ],
)
async def test_every_row_is_as_wide_as_the_pane_whatever_is_in_it(text: str) -> None:
    async with staged() as (view, pilot):
        view.add_user(text)
        view.begin_answer()
        view.append(f"- {text}\n```\n{text}\n```\n**{text}**")
        view.end_answer(text, text)
        view.note(text)
        await pilot.pause()
        width = view.size.width
        for y in range(view.size.height):
            strip = view.render_line(y)
            assert strip.cell_length == cell_len(strip.text) == wcswidth(strip.text) == width


async def test_east_asian_text_fills_the_pane() -> None:
    async with staged((34, 24)) as (view, pilot):
        view.begin_answer()
        view.append("光线进入水滴后会发生折射，然后在背面反射。" * 10)
        await pilot.pause()
        full = [line.rstrip() for line in lines(view) if line.strip()][:-1]
        assert view.size.width == 31  # the last column is the scrollbar's
        assert all(cell_len(line) >= 28 for line in full)


async def test_brackets_are_text_everywhere() -> None:
    async with staged((60, 14)) as (view, pilot):
        view.add_user(NASTY)
        view.begin_answer()
        view.append(NASTY)
        view.end_answer(NASTY, NASTY)
        view.note(NASTY)
        await pilot.pause()
        assert shown(view).count("[/some/path] a[/]b [bold]x[/bold]") == 5


async def test_an_unfinished_answer_says_why_and_loses_nothing() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("half a sen\n\n")
        view.note("the engine is restarting")  # must not land inside the answer
        view.append("")
        await pilot.pause()
        assert shown(view).startswith("half a sen\n\n")  # painted, so that it could go stale
        view.end_answer("3 tok", "! interrupted")
        view.add_user("again")
        view.begin_answer()
        view.end_answer(marked="✗ stopped")
        await pilot.pause()
        assert shown(view).split("\n")[:8] == [
            "half a sen",
            "! interrupted   3 tok",
            "  the engine is restarting",
            "",
            f"{glyphs.DEFAULT.prompt} again",
            "",
            "✗ stopped",
            "",
        ]


async def test_an_answer_of_nothing_leaves_nothing() -> None:
    async with staged() as (view, pilot):
        answer(view, "")
        answer(view, "\n\n", "3 tok")
        await finished(pilot)
        assert shown(view).strip() == "3 tok"


async def test_a_stored_chat_loads_at_its_end_and_clears_to_nothing() -> None:
    async with staged() as (view, pilot):
        view.add_user("first\nsecond")
        answer(view, "answer\n" * 40 + "the end", "9 tok")
        view.add_user("more")
        answer(view, "cut", "", "stopped")
        await pilot.pause()
        assert view.following
        assert view.last_answer() == "cut"
        assert view.source_text().startswith("> first\n> second\n\nanswer\n")
        assert "stopped" in shown(view)
        view.clear()
        await pilot.pause()
        assert (view.source_text(), view.last_answer(), shown(view).strip()) == ("", "", "")


async def test_text_loaded_before_the_first_layout_is_laid_out() -> None:
    early = Transcript()
    answer(early, "word " * 200)
    async with staged(view=early) as (view, pilot):
        await pilot.pause()
        assert view.virtual_size.height > 20
        assert view.following
        assert lines(view)[-1].strip()


async def test_a_resize_keeps_the_readers_place_and_gives_it_back() -> None:
    async with staged((60, 14)) as (view, pilot):
        view.begin_answer()
        view.append("\n\n".join(f"{n} " + "word " * 30 for n in range(30)))
        await pilot.pause()
        view.scroll_to(y=100, animate=False)
        await pilot.pause()
        before = lines(view)[0]
        for size in ((100, 30), (44, 9), (60, 14)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert not view.following
        assert view.scroll_offset.y == 100
        assert lines(view)[0] == before


async def test_a_resize_at_the_end_stays_at_the_end() -> None:
    async with staged((60, 14)) as (view, pilot):
        view.begin_answer()
        view.append("word " * 400 + "end")
        for size in ((30, 9), (100, 30), (60, 14)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert view.following
            assert shown(view).rstrip().endswith("end")


async def test_an_append_wraps_one_line_and_lays_out_no_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the chat is: this is what keeps eight streaming panes cheap."""
    async with staged() as (view, pilot):
        answer(view, "some words here\n" * 500)
        await finished(pilot)
        view.begin_answer()
        await pilot.pause()
        wrapped: list[str] = []
        real = PlainLine.lay_out

        def lay_out(line: PlainLine, width: int) -> None:
            wrapped.append(line.source)
            real(line, width)

        monkeypatch.setattr(PlainLine, "lay_out", lay_out)
        layouts: list[object] = []
        pilot.app.screen.screen_layout_refresh_signal.subscribe(view, layouts.append)
        view.append("tail\nanother")
        await pilot.pause()
        assert wrapped == ["tail", "another"]
        assert layouts == []


async def test_only_rows_in_view_are_styled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged() as (view, pilot):
        drawn: list[str] = []
        real = LinePainter._paint
        monkeypatch.setattr(
            LinePainter,
            "_paint",
            lambda self, line, *rest: drawn.append(line.source) or real(self, line, *rest),
        )
        view.append("\n".join(f"line {n}" for n in range(500)))
        await pilot.pause()
        assert 0 < len(drawn) <= 2 * view.size.height
        assert drawn[-1] == "line 499"
        drawn.clear()
        view.append("\n" + "word " * 100_000)
        await pilot.pause()
        assert 0 < len(drawn) <= 2 * view.size.height


async def test_a_selection_is_source_text_without_soft_breaks() -> None:
    async with staged() as (view, pilot):
        view.add_user("my question")
        view.begin_answer()
        view.append("- an item that is long enough to be wrapped over rows\nnext")
        await pilot.pause()
        everything = view.get_selection(Selection(None, None))
        assert everything is not None
        assert everything[0] == (
            "my question\n\n- an item that is long enough to be wrapped over rows\nnext"
        )
        part = view.get_selection(Selection(Offset(5, 2), Offset(6, 3)))
        assert part is not None
        text = "- an item that is long enough to be wrapped over rows"
        assert part[0] == text[5 : text.index(part[0][-4:]) + 4]
        assert len(part[0]) > 30


async def test_a_selection_is_highlighted() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("hello world")
        await pilot.pause()
        plain = view.render_line(0)
        pilot.app.screen.selections = {view: Selection(Offset(2, 0), Offset(5, 0))}
        await pilot.pause()
        marked = view.render_line(0)
        assert marked.text == plain.text
        assert any(segment.text == "llo" for segment in marked)


async def test_a_huge_line_is_drawn() -> None:
    async with staged() as (view, pilot):
        view.add_user("x" * 100_000)
        await pilot.pause()
        assert view.virtual_size.height > 2_000
        assert lines(view)[-1].strip().strip("x") == ""


MARKDOWN = "# Title\n\n- **bold** item\n\n|a|b|\n|-|-|\n|1|2|\n\n```py\nx = 1\n```"


async def test_a_finished_answer_is_set_in_type_and_copied_as_it_was_written() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append(MARKDOWN)
        await pilot.pause()
        assert "**bold**" in shown(view)  # what is being written shows its signs
        view.end_answer("9 tok")
        await finished(pilot)
        assert "- bold item" in shown(view)
        assert "a │ b" in shown(view)
        assert "**" not in shown(view)
        assert view.last_answer() == MARKDOWN
        everything = view.get_selection(Selection(Offset(0, 1), None))
        assert everything is not None
        assert "- **bold** item" in everything[0]


async def test_an_answer_is_set_in_type_once_whatever_the_width_and_theme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    real = markdown_lines.set_in_type
    monkeypatch.setattr(
        markdown_lines, "set_in_type", lambda source: parsed.append(source) or real(source)
    )
    async with staged((60, 14)) as (view, pilot):
        answer(view, MARKDOWN)
        await finished(pilot)
        await pilot.resize_terminal(30, 14)
        pilot.app.theme = "paper"
        await finished(pilot)
        assert "- bold item" in shown(view)
        assert parsed == [MARKDOWN]


async def test_a_parser_s_fault_costs_only_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(source: str) -> list[Line]:
        raise RecursionError

    monkeypatch.setattr(markdown_lines, "set_in_type", broken)
    async with staged() as (view, pilot):
        answer(view, MARKDOWN)
        await finished(pilot)
        assert "- **bold** item" in shown(view)
        assert view.last_answer() == MARKDOWN


async def test_what_a_reader_looks_at_stays_when_the_rest_is_set_in_type() -> None:
    """Links grow by their addresses, the table's rows wrap: the answer gets longer and shorter."""
    async with staged((40, 9)) as (view, pilot):
        view.begin_answer()
        view.append("[l](http://a-long-address.example)\n" * 20 + "here\n" + "***\n" * 40)
        view.scroll_to(y=24, animate=False)
        await pilot.pause()
        while "here" not in lines(view)[0]:
            view.scroll_relative(y=1 if "http" in lines(view)[0] else -1, animate=False)
            await pilot.pause()
        before = view.virtual_size.height
        view.end_answer()
        await finished(pilot)
        assert "─" in shown(view)
        assert view.virtual_size.height != before
        assert lines(view)[0].strip() == "here"


async def test_a_selection_stays_where_it_is_until_it_is_gone() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append(MARKDOWN)
        await pilot.pause()
        pilot.app.screen.selections = {view: Selection(Offset(2, 2), Offset(8, 2))}
        view.end_answer()
        await pilot.pause(0.3)
        assert "**bold**" in shown(view)
        pilot.app.screen.clear_selection()
        await finished(pilot)
        assert "- bold item" in shown(view)


@pytest.mark.parametrize(
    "pieces",
    [
        ["<think>\nhm, **let** me see\n</think>\n\n", "It is 42."],
        list("<think>\nhm, **let** me see\n</think>\n\nIt is 42."),
        ["hm, **let** me see\n", "</think>\n\nIt is", " 42."],
    ],
)
async def test_reasoning_folds_to_a_line_that_a_key_opens(pieces: list[str]) -> None:
    async with staged(view=Transcript(thought_key="T")) as (view, pilot):
        view.begin_answer()
        for piece in pieces:
            view.append(piece)
        view.end_answer()
        await finished(pilot)
        sign = glyphs.DEFAULT.folded
        assert shown(view).startswith(f"{sign} thought, 4 words   T shows it\n\nIt is 42.")
        assert view.last_answer() == "It is 42."
        assert view.source_text() == "<think>\nhm, **let** me see\n</think>\n\nIt is 42."
        folded = shown(view)
        view.toggle_thoughts()
        await pilot.pause()
        assert "words   T folds it\n  hm, **let** me see\n\nIt is 42." in shown(view)
        assert view.source_text() == "<think>\nhm, **let** me see\n</think>\n\nIt is 42."
        view.toggle_thoughts()
        await pilot.pause()
        assert shown(view) == folded


async def test_an_earlier_answer_is_not_taken_for_that_of_the_latest_prompt() -> None:
    async with staged() as (view, _):
        for text, answer in (("one", "1"), ("two", "<think>\nonly a thought\n</think>\n")):
            view.add_user(text)
            view.begin_answer()
            view.append(answer)
            view.end_answer()
        assert view.last_answer() == ""


async def test_a_prompt_that_was_stopped_before_its_answer_began_hides_no_earlier_answer() -> None:
    async with staged() as (view, _):
        view.add_user("one")
        answer(view, "1")
        view.add_user("two")
        view.begin_answer()
        assert view.last_answer() == ""
        view.end_answer(marked="stopped")
        assert view.last_answer() == "1"


async def test_reasoning_is_seen_while_it_is_written_and_kept_when_it_is_cut_off() -> None:
    async with staged() as (view, pilot):
        view.begin_answer()
        view.append("<think>\nhm")
        await pilot.pause()
        assert shown(view).startswith(f"{glyphs.DEFAULT.unfolded} thinking\n  hm")
        view.toggle_thoughts()
        view.toggle_thoughts()
        view.append(", so")
        await pilot.pause()
        assert "  hm, so" in shown(view)
        view.end_answer(marked="stopped")
        await pilot.pause()
        assert shown(view).startswith(f"{glyphs.DEFAULT.folded} thought, 2 words")
        assert view.last_answer() == ""
        assert "hm, so" in view.source_text()


async def test_the_beginning_of_a_long_day_comes_back_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_text, "ROWS_KEPT", 60)
    monkeypatch.setattr(transcript, "RECALLED_ROWS", 60)
    async with staged() as (view, pilot):
        for n in range(40):
            view.add_user(f"question {n}")
            answer(view, f"<think>{n}</think>- answer **{n}**\n" + "more\n" * 5)
        await finished(pilot)
        whole = view.source_text()
        assert "question 0" in whole
        assert view.virtual_size.height < 130
        view.scroll_to(y=5, animate=False)
        await pilot.pause()
        top = lines(view)[0]
        view.scroll_to(y=0, animate=False)
        await finished(pilot)
        assert view.virtual_size.height > 150
        assert view.scroll_offset.y > 0
        view.scroll_relative(y=5, animate=False)
        await pilot.pause()
        assert lines(view)[0] == top
        view.go_to_start()
        await finished(pilot)
        assert "question 0" in lines(view)[0]
        assert "- answer 0" in shown(view)
        assert view.source_text() == whole
        view.follow()
        answer(view, "the end")
        await finished(pilot)
        assert view.virtual_size.height < 130
        assert view.source_text().startswith(
            "> question 0\n\n<think>\n0\n</think>\n\n- answer **0**"
        )
