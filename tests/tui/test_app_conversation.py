"""Other answers, other prompts, other branches of one conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import TurnStatus
from dspark_tui.paths import Paths
from dspark_tui.screens.ask import Answer
from dspark_tui.widgets.pane import Pane
from engine.events import Event, Prefill
from tests.tui.burst import NOW, Life, events_of, snapshot
from tests.tui.conftest import Bench, OpenBench, Requests, fast, panes
from tests.tui.sheets import shown
from tests.tui.still import Said, still


def border(bench: Bench) -> str:
    """The lower one of pane 1."""
    return str(bench.pane(1).border_subtitle)


def said(bench: Bench) -> str:
    """All lines of pane 1."""
    return "\n".join(line.drawn for line in bench.pane(1).transcript._text.lines)


async def test_an_edited_prompt_is_answered_beside_the_old_one(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("first")
        await bench.until_idle()
        await bench.send("teh question")
        await bench.until_idle()
        await bench.type("meant for later")
        await bench.press("escape", "e")
        assert bench.composer.text == "teh question"
        assert "edits 1's last prompt" in str(bench.composer.border_title)
        bench.composer.put("the question")
        await bench.press("enter")
        await bench.until_idle()
        pane = bench.conversation(1)
        assert [turn.prompt for turn in pane.turns] == ["first", "the question"]
        assert [turn.prompt for turn in pane.siblings(pane.turns[1])] == [
            "teh question",
            "the question",
        ]
        assert bench.notes(1).startswith("‹ 2/2 ›  edited")
        assert len(bench.conversation(2).turns) == 2
        assert bench.composer.text == "meant for later"
        assert "broadcast" in str(bench.composer.border_title)
        await bench.press("escape", "less_than_sign")
        assert [turn.prompt for turn in pane.turns] == ["first", "teh question"]
        assert "teh question" in bench.shown(1)
        await bench.press("greater_than_sign")
        assert "the question" in bench.shown(1)


async def test_the_border_has_the_figures_of_the_version_in_sight(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1, max_tokens=5)) as bench:
        await bench.send("once")
        await bench.until_idle()
        bench.conversation(1).params = PaneParams(max_tokens=9)
        await bench.press("escape", "r")
        await bench.until_idle()
        assert "9 tok" in str(bench.pane(1).border_subtitle)
        await bench.press("less_than_sign")
        assert "5 tok" in str(bench.pane(1).border_subtitle)
        assert "raises the limit" in bench.notes(1)


async def test_figures_and_end_stand_once_in_the_border_and_then_below_the_earlier_answer(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1, max_tokens=5)) as bench:
        await bench.send("once")
        await bench.until_idle()
        assert str(bench.pane(1).border_subtitle).startswith("┫ token limit  5 tok  ")
        assert "5 tok" not in said(bench)
        await bench.send("again")
        await bench.until_idle()
        for _ in "streamed", "stored":
            assert said(bench).count("┫ token limit   5 tok  ") == 1
            assert said(bench).count("raises the limit") == 1, "of the last answer only"
            bench.pane(1).show()


async def test_a_prompt_being_read_says_how_much_of_it_is(
    monkeypatch: pytest.MonkeyPatch, paths: Paths
) -> None:
    life = Life("r1", "1", 0.0, 12.0, None, None, prompt=3912)
    events: list[Event] = [snapshot(), *events_of([life])]
    async with still(monkeypatch, paths, events, said=[Said(life)], settings=panes(1)) as bench:
        await bench.send("Read this.")
        await bench.until(lambda: border(bench) == "> reading 3,912 prompt tok  2.5 s")
        bench.link.live.apply(Prefill(NOW, "r1", 1536, 3912, 50.0))
        await bench.until(lambda: border(bench) == "> read 1,536 of 3,912 prompt tok")


async def test_a_prompt_that_was_too_long_is_edited_with_one_key_or_left_behind(
    open_bench: OpenBench, requests: Requests
) -> None:
    too_long = "far too many words for such a small context"
    async with open_bench(fast(context=8), settings=panes(1, max_tokens=1)) as bench:
        await bench.send("one")
        await bench.until_idle()
        await bench.send(too_long)
        await bench.until_idle()
        assert "maximum context length" in said(bench)
        assert "Esc, e edits the prompt" in said(bench)
        assert bench.composer.text == too_long
        await bench.press("ctrl+c", "escape", "e")
        assert bench.composer.text == too_long
        await bench.press("ctrl+c")
        await bench.send("two")
        await bench.until_idle()
        assert [m["content"] for m in requests[-1][0]][::2] == ["one", "two"]
        assert said(bench).count(too_long) == said(bench).count("! failed") == 1


async def test_an_edit_that_is_cleared_changes_nothing(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("first")
        await bench.until_idle()
        await bench.type("a draft")
        await bench.press("escape", "e", "ctrl+c")
        assert bench.composer.text == "a draft"
        assert bench.workbench.session.editing is None
        assert len(bench.conversation(1).starts) == 1


async def test_the_same_seed_is_said_and_sent_again(
    open_bench: OpenBench, requests: Requests
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.send("once")
        await bench.until_idle()
        await bench.press("escape", "equals_sign")
        await bench.until_idle()
        await bench.press("r")
        await bench.until_idle()
        first, same, new = (sampling["seed"] for _, sampling in requests)
        assert first == same != new
        origins = [turn.origin for turn in bench.conversation(1).starts]
        assert origins == ["", "same seed", "new seed"]
        assert bench.notes(1).startswith("‹ 3/3 ›  new seed")


async def test_a_new_seed_is_new_where_the_pane_has_one_of_its_own(
    open_bench: OpenBench, requests: Requests
) -> None:
    async with open_bench(settings=panes(1, seed=7)) as bench:
        await bench.send("once")
        await bench.until_idle()
        await bench.press("escape", "r")
        await bench.until_idle()
        assert requests[0][1]["seed"] == 7
        assert requests[1][1]["seed"] != 7


async def test_a_fork_has_the_history_and_goes_its_own_way(
    open_bench: OpenBench, requests: Requests
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.press("ctrl+t")
        await bench.send("one")
        await bench.until_idle()
        await bench.press("escape", "f")
        await bench.until(lambda: len(bench.workbench.query(Pane)) == 2)
        await bench.until(lambda: bench.shown(2) == bench.shown(1))
        await bench.press("i")
        await bench.send("two")
        await bench.until_idle()
        assert [turn.prompt for turn in bench.conversation(1).turns] == ["one"]
        assert [message["content"] for message in requests[-1][0]][::2] == ["one", "two"]


async def test_a_stopped_answer_goes_on_where_it_was(
    open_bench: OpenBench, requests: Requests
) -> None:
    async with open_bench(settings=panes(1, max_tokens=60)) as bench:
        await bench.send("run on #hold")
        await bench.until(lambda: len(bench.turn(1).answer) > 20)
        await bench.press("escape", "s")
        await bench.until_idle()
        half = bench.turn(1).answer
        await bench.press("c")
        await bench.until(lambda: len(bench.turn(1).answer) > len(half))
        assert bench.conversation(1).turns == bench.conversation(1).starts
        await bench.until_idle()
        assert bench.turn(1).answer.startswith(half)
        messages, fields = requests[-1]
        assert messages[-1] == {"role": "assistant", "content": half}
        assert fields["continue_final_message"] is True
        assert fields["add_generation_prompt"] is False
        assert fields["seed"] == requests[0][1]["seed"]
        assert "stopped" not in bench.pane(1).transcript._text.lines[-1].source


async def test_what_breaks_off_again_before_it_goes_on_keeps_its_figures(
    open_bench: OpenBench,
) -> None:
    script = fast()
    async with open_bench(script, settings=panes(1, max_tokens=60)) as bench:
        await bench.send("run on #hold")
        await bench.until(lambda: len(bench.turn(1).answer) > 20)
        await bench.press("escape", "s")
        await bench.until_idle()
        figures = border(bench)
        assert " tok" in figures
        script.together = 2  # it waits for another one
        await bench.press("c")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.SENT)
        await bench.press("s")
        await bench.until_idle()
        assert [bool(request.tokens) for request in bench.turn(1).requests] == [True, False]
        assert border(bench) == figures


async def test_what_ended_by_itself_cannot_go_on(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1, max_tokens=300)) as bench:
        await bench.send("to the end")
        await bench.until_idle()
        await bench.press("escape", "c")
        assert any("cut short" in notice for notice in bench.notices())


async def test_a_pane_gets_a_name(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("escape", "R")
        await bench.press(*"terse", "enter")
        await bench.until(lambda: bench.conversation(1).label == "1 terse")
        assert "1 terse" in bench.pane(1)._border_title.plain  # type: ignore[union-attr]
        await bench.press("R", "x", "escape")
        assert bench.conversation(1).label == "1 terse"


async def test_a_pane_is_exported_where_one_says_with_its_name(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    async with open_bench() as bench:
        await bench.press("escape", "R", *"terse", "enter", "i")
        await bench.send("hello")
        await bench.until_idle()
        path = tmp_path / "there.md"
        await bench.press("escape", "w")
        bench.app.screen.query_one(Answer).value = str(path)
        await bench.press("enter")
        await bench.until(lambda: bench.app.screen is bench.workbench)
        assert path.read_text().startswith("# Pane 1 terse\n\n> hello\n")


async def test_a_file_that_cannot_be_written_leaves_its_name_to_be_mended(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await bench.press("escape", "w")
        answer = bench.app.screen.query_one(Answer)
        answer.value = str(tmp_path / "there.pdf")
        await bench.press("enter")
        await bench.until(lambda: "must end in one of" in shown(bench, "#problem"))
        answer.value = str(tmp_path / "missing" / "there.md")
        await bench.pilot.pause()
        assert not shown(bench, "#problem")
        await bench.press("enter")
        await bench.until(lambda: shown(bench, "#problem").endswith("/missing"))
        assert not list(tmp_path.glob("missing"))
        answer.value = str(tmp_path / "there.md")
        await bench.press("enter")
        await bench.until(lambda: bench.app.screen is bench.workbench)
        assert "> hello" in (tmp_path / "there.md").read_text()


async def test_where_nothing_was_said_there_is_nothing_to_export(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("escape", "w", "W")
        bench.workbench.action_export_requests()
        await bench.pilot.pause()
        assert bench.app.screen is bench.workbench
        said = bench.notices()
        assert len(said) == 2  # the first two are alike
        assert all("nothing to export" in line or "to export yet" in line for line in said)


async def test_half_a_surrogate_pair_in_an_answer_is_kept_as_well_as_it_can_be(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.send("hello")
        await bench.until_idle()
        bench.turn(1).answer += "\ud83d!"
        await bench.press("ctrl+q")
        await bench.until(lambda: bench.app._exit)
    async with open_bench() as bench:
        assert bench.turn(1).answer.endswith("?!")


async def test_words_are_found_in_the_pane_one_place_after_the_other(open_bench: OpenBench) -> None:
    def selected() -> str:
        return bench.workbench.get_selected_text() or ""

    def row() -> int:
        selection = bench.pane(1).transcript._selection
        assert selection is not None
        assert selection.start is not None
        return selection.start.y

    async with open_bench(settings=panes(1)) as bench:
        await bench.send("a needle here\n\nand a Needle there")
        await bench.until_idle()
        await bench.press("escape", "slash", *"needle", "enter")
        assert selected() == "Needle"
        assert border(bench).startswith("2 of 2  needle  ")
        below = row()
        await bench.press("N")
        assert selected() == "needle"
        assert border(bench).startswith("1 of 2  needle  ")
        assert row() < below
        await bench.press("n")
        assert row() == below


async def test_every_place_counts_also_within_a_line_and_before_what_is_laid_out(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(60, 20), settings=panes(1)) as bench:
        pane = bench.pane(1)
        for _ in range(600):
            bench.conversation(1).begin("ẞ needle, Needle\n\n\n").status = TurnStatus.DONE
        pane.show()
        assert pane.transcript._text.earlier
        await bench.press("escape", "slash", *"needle", "enter")
        assert border(bench).startswith("1,200 of 1,200")
        await bench.press("N")
        assert bench.workbench.get_selected_text() == "needle"
        await bench.press("n", "n")
        assert border(bench).startswith("1 of 1,200")
        assert pane.transcript.scroll_y == 0


async def test_words_that_are_nowhere_can_be_mended_and_esc_ends_the_search(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.send("a needle here")
        await bench.until_idle()
        await bench.send("/find")
        await bench.press(*"needless", "enter")
        await bench.until(lambda: "no match" in shown(bench, "#problem"))
        await bench.press("backspace", "backspace", "enter")
        await bench.until(lambda: border(bench).startswith("1 of 1  needle"))
        await bench.press("z")
        await bench.until(lambda: bench.workbench.get_selected_text() == "needle")
        assert border(bench).startswith("1 of 1  needle")
        await bench.press("escape")
        await bench.until(lambda: border(bench).startswith("┫ token limit"))
        assert not bench.workbench.get_selected_text()
        await bench.press("n")
        assert border(bench).startswith("1 of 1")
        await bench.press("G")
        await bench.until(lambda: border(bench).startswith("┫ token limit"))
