"""Chatting: sending, streaming, waiting, stopping, failing and trying again."""

from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import TurnStatus
from dspark_tui.engines import link
from dspark_tui.textual_private import PasteParser
from tests.tui.conftest import ENDLESS, OpenBench, calm, fast, panes, slow
from tests.tui.golden import screen_text

BRACKETS = "[/some/path] a[/]b [bold"


async def test_one_enter_is_answered_in_two_panes_side_by_side(
    open_bench: OpenBench, requests: list
) -> None:
    cold = PaneParams(name="cold", temperature=0, max_tokens=20)
    hot = PaneParams(name="hot", temperature=1.2, max_tokens=20)
    async with open_bench(settings=Settings(panes=(cold, hot))) as bench:
        await bench.send("Explain rainbows.")
        await bench.until_idle()
        assert [sampling["temperature"] for _, sampling in requests] == [0, 1.2]
        for number in (1, 2):
            assert bench.turn(number).status is TurnStatus.DONE
            assert "Explain rainbows." in bench.shown(number)
            assert "Why a circle" in bench.shown(number)
            assert bench.pane(number).region.width > 38
        assert bench.pane(1).region.y == bench.pane(2).region.y
        assert "T1.2" in str(bench.pane(2).border_title)

        def sources() -> set[str]:
            return {r.source for r in bench.link.live.engine.requests.values()}

        await bench.until(lambda: sources() == {"1 cold", "2 hot"})


async def test_text_sent_before_the_engine_is_ready_waits_and_is_answered(
    open_bench: OpenBench,
) -> None:
    script = fast(loading=True)
    async with open_bench(script) as bench:
        await bench.send("early bird")
        assert bench.turn(1).status is TurnStatus.WAITING
        await bench.until(lambda: "waits for the engine" in str(bench.pane(1).border_subtitle))
        script.loading = False
        await bench.until_idle()
        assert bench.turn(1).status is bench.turn(2).status is TurnStatus.DONE


async def test_a_follow_up_carries_the_pane_s_own_history(
    open_bench: OpenBench, requests: list
) -> None:
    briefed = PaneParams(system="Be brief.", max_tokens=20)
    settings = Settings(panes=(briefed, PaneParams(max_tokens=20)))
    async with open_bench(settings=settings) as bench:
        await bench.send("to both")
        await bench.until_idle()
        await bench.press("tab", "ctrl+t")
        await bench.send("only the second")
        await bench.until_idle()
        messages, _ = requests[-1]
        assert [m["role"] for m in messages] == ["user", "assistant", "user"]
        assert messages[1]["content"] == bench.conversation(2).turns[0].answer
        assert len(bench.conversation(1).turns) == 1
        assert requests[0][0][0] == {"role": "system", "content": "Be brief."}


async def test_ctrl_c_copies_then_clears_the_text_then_stops_the_pane_then_says_how_to_quit(
    open_bench: OpenBench,
) -> None:
    async with open_bench(slow(), settings=ENDLESS) as bench:
        await bench.press("ctrl+t")
        await bench.send("run on")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.RUNNING)
        await bench.type("half a thought")
        question = Selection(Offset(2, 0), Offset(8, 0))
        bench.workbench.selections = {bench.pane(1).transcript: question}
        await bench.press("ctrl+c")
        assert bench.app.clipboard == "run on"
        assert bench.workbench.get_selected_text() is None
        assert bench.composer.text == "half a thought"
        assert bench.turn(1).status is TurnStatus.RUNNING
        await bench.press("ctrl+c")
        assert bench.composer.text == ""
        assert bench.turn(1).status is TurnStatus.RUNNING
        await bench.press("ctrl+c")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.STOPPED
        assert bench.turn(1).answer
        await bench.press("ctrl+c")
        assert any("^Q quits" in notice for notice in bench.notices())
        await bench.press("up")
        assert bench.composer.text == "half a thought"


async def test_ctrl_c_copies_a_selection_of_the_text_first(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.type("keep this")
        bench.composer.select_all()
        await bench.press("ctrl+c")
        assert bench.app.clipboard == "keep this"
        assert bench.composer.text == "keep this"
        await bench.press("ctrl+c")
        assert bench.composer.text == ""


async def test_stopping_frees_the_engine_s_slots(open_bench: OpenBench) -> None:
    async with open_bench(slow(), settings=ENDLESS) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(2).status is TurnStatus.RUNNING)
        await bench.press("escape", "s")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.STOPPED)
        assert bench.turn(2).status is TurnStatus.RUNNING
        await bench.press("S")
        await bench.until_idle()
        assert bench.server is not None
        await bench.until(lambda: not bench.server.engine.running)
        assert "stopped" in str(bench.pane(2).border_subtitle)


async def test_pane_and_lane_show_the_same_figures_of_a_request_stopped_or_not(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "END_EVENT_LIMIT", 60.0)  # on a slow machine events are late
    settings = Settings(panes=(PaneParams(max_tokens=20), PaneParams(max_tokens=100_000)))
    async with open_bench(calm(rate=40.0), settings=settings) as bench:
        await bench.send("hello")
        await bench.until(lambda: bench.conversation(1).turns and bench.turn(1).status.over)
        await bench.until(lambda: bench.turn(2).answer)
        await bench.press("escape", "2", "s")
        await bench.until_idle()
        for number in (1, 2):
            (record,) = bench.turn(number).requests
            (lane,) = (lane for lane in bench.link.live.lanes if lane.id == record.request)
            assert record.tokens == lane.request.tokens
            assert (record.waited, record.first) == (lane.waited(0.0), lane.ttft)
            assert record.ended == lane.completion_time
            assert record.prompt_tokens == lane.request.prompt_tokens > 0
            assert record.cached_tokens == 0
            assert record.rate == pytest.approx(lane.rate)


async def test_prompts_for_a_busy_pane_wait_in_it_and_can_be_taken_back(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+t")
        for prompt in ("first #hold", "second", "third"):
            await bench.send(prompt)
        assert bench.conversation(1).pending == ["second", "third"]
        await bench.until(lambda: "queued: second and 1 more" in str(bench.pane(1).border_subtitle))
        await bench.press("escape", "s")
        assert bench.conversation(1).pending == ["second"]
        assert bench.server is not None
        bench.server.script.holding = False
        await bench.until_idle()
        assert [turn.prompt for turn in bench.conversation(1).turns] == ["first #hold", "second"]
        assert bench.turn(1).status is TurnStatus.DONE


async def test_a_queued_request_says_its_place(open_bench: OpenBench) -> None:
    async with open_bench(slow(slots=1), settings=panes(4, max_tokens=100_000)) as bench:
        await bench.send("all at once")
        await bench.until(lambda: "queued 1st" in str(bench.pane(2).border_subtitle))
        await bench.until(lambda: "queued 2nd" in str(bench.pane(3).border_subtitle))
        await bench.until(lambda: "queued 3rd" in str(bench.pane(4).border_subtitle))
        earlier = str(bench.pane(4).border_subtitle)
        await bench.until(lambda: str(bench.pane(4).border_subtitle) != earlier)
        assert "queued 3rd" in str(bench.pane(4).border_subtitle)  # the seconds went on


async def test_a_refused_prompt_is_explained_and_returns_to_the_composer(
    open_bench: OpenBench,
) -> None:
    async with open_bench(fast(context=8)) as bench:
        await bench.send("far too many words for such a small context")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.FAILED
        assert "maximum context length is 8 tokens" in bench.turn(1).problem
        assert "failed" in str(bench.pane(1).border_subtitle)
        assert bench.composer.text == "far too many words for such a small context"
        assert "again" not in bench.notes(1)


async def test_a_failure_that_may_pass_offers_to_send_again(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("#fail")
        await bench.until_idle()
        assert "sends it again" in bench.notes(1)


async def test_a_broadcast_reaches_the_engine_in_the_panes_order(open_bench: OpenBench) -> None:
    async with open_bench(fast(slots=1), settings=panes(8)) as bench:
        for _ in range(3):
            await bench.send("all")
            await bench.until_idle()
        requests = bench.link.live.engine.requests
        await bench.until(lambda: len(requests) == 24)
        asked = [r.source for r in sorted(requests.values(), key=lambda r: r.queued)]
        assert asked[-8:] == list("12345678")


async def test_one_failing_row_keeps_its_text_and_leaves_the_others_alone(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+t")
        await bench.send("#fail")
        await bench.press("tab")
        await bench.send("works")
        await bench.until_idle()
        assert bench.turn(1).status is TurnStatus.FAILED
        assert bench.turn(1).answer
        assert "this row fails" in bench.turn(1).problem
        assert bench.turn(2).status is TurnStatus.DONE


async def test_answering_again_keeps_the_old_answer_but_not_in_the_history(
    open_bench: OpenBench, requests: list
) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+t")
        await bench.send("once")
        await bench.until_idle()
        await bench.press("escape", "r")
        await bench.until_idle()
        first, second = bench.conversation(1).starts
        assert bench.conversation(1).turns == [second]
        assert first.answer
        assert requests[-1][0] == [{"role": "user", "content": "once"}]
        assert requests[-1][1]["seed"] == second.seed != first.seed
        assert bench.notes(1).startswith("‹ 2/2 ›  new seed")


async def test_brackets_are_text_in_prompt_answer_title_and_error(open_bench: OpenBench) -> None:
    settings = Settings(panes=(PaneParams(), PaneParams(name=BRACKETS, system=BRACKETS)))
    async with open_bench(size=(160, 40), settings=settings, notices=(BRACKETS,)) as bench:
        await bench.send(f"{BRACKETS} #brackets #fail")
        await bench.until_idle()
        await bench.pilot.pause()
        drawn = screen_text(bench.pilot)
        assert f"2 {BRACKETS}  sys: {BRACKETS[:23]}" in drawn
        assert f"{BRACKETS} #brackets" in drawn
        assert f"\n┃  {BRACKETS} [/some/path]" in drawn
        assert "this row fails [/x]" in drawn
        assert any(BRACKETS in notice for notice in bench.notices())


async def test_a_prompt_from_the_command_line_goes_to_all_panes(open_bench: OpenBench) -> None:
    async with open_bench(prompt="from the shell") as bench:
        await bench.until(lambda: bench.conversation(2).turns)
        await bench.until_idle()
        assert bench.turn(1).prompt == bench.turn(2).prompt == "from the shell"
        assert bench.turn(2).status is TurnStatus.DONE


async def test_a_joined_emoji_and_a_wide_blank_typed_as_keys_are_sent_whole(
    open_bench: OpenBench,
) -> None:
    family = "👩\u200d👩\u200d👧 👍🏽 ❤️ 🏴\U000e0067\U000e0062\U000e007f 日\u3000本"
    async with open_bench() as bench:
        for key in PasteParser().feed(f"old\x1b[1;2D\x1b[1;2D\x1b[1;2D{family}\r"):
            bench.app.post_message(key)
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.turn(1).prompt == family
        await bench.press("f2")
        for key in PasteParser().feed(f"\t{family}\t0\r"):
            bench.app.post_message(key)
        await bench.until(lambda: bench.conversation(1).params.system == family)


async def test_enter_on_an_empty_composer_sends_nothing(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("  \n ")
        assert not bench.conversation(1).turns
