"""The batch panel: what it says at each size, and that it draws no more than it must."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from wcwidth import wcswidth

from dspark_tui.appearance import glyphs
from dspark_tui.appearance.glyphs import DEFAULT, Glyphs
from dspark_tui.batch.layout import layout, title
from dspark_tui.batch.live import VIEW, LiveState, Notice
from dspark_tui.batch.parts import row_cells
from dspark_tui.widgets.batch_panel import BatchPanel, Mode
from engine.events import (
    Admitted,
    Capability,
    EngineStatus,
    Event,
    Finished,
    Load,
    Paused,
    Preempted,
    Progress,
    Queued,
    Speculation,
    Status,
    Step,
)
from engine.types import FinishReason
from tests.tui.burst import NOW, START, burst, lone_request, snapshot
from tests.tui.stage import Stage, lines

NASTY = "[/x] a[/]b \x1b[31m ☺️ 👩‍👩‍👧 日本語"


def state_of(events: list[Event]) -> LiveState:
    state = LiveState()
    for event in events:
        state.apply(event)
    return state


def drawn(
    state: LiveState, width: int, height: int, now: float = NOW, signs: Glyphs = DEFAULT
) -> list[str]:
    return [
        "".join(part.text for part in row).rstrip()
        for row in layout(state, now, width, height, signs)
    ]


def progress(done: int, total: int, unit: str = "bytes") -> Status:
    step = Progress("fetch", "model.gguf", done, total, unit)
    return Status(START, EngineStatus.LOADING, step)


@asynccontextmanager
async def staged(
    size: tuple[int, int] = (120, 35), mode: Mode = Mode.MEDIUM, signs: Glyphs = DEFAULT
) -> AsyncIterator[tuple[BatchPanel, Pilot[None]]]:
    panel = BatchPanel(glyphs=signs)
    async with Stage(panel).run_test(size=size) as pilot:
        panel.mode = mode
        await pilot.pause()
        yield panel, pilot


def test_five_lines_at_eighty_columns_say_what_matters() -> None:
    assert drawn(state_of(burst()), 78, 5) == [
        "+2 more       0 s          10        end  tok │ 3 of 8 slots busy   1 queued",
        "r3  3 hot     ╌━━━━━╍╍━━━━━━━━━━>      -  262 │ 60.0 tok/s aggregate",
        "r4  4 long-co      ╌╌╌╌━━━━━━━━━>      -  151 │ 870 tok / 14.50 s",
        "r5  2 terse            ┈┈╌━━━━━━>      -  101 │ batch width 3, max 4, mean 3.3",
        "r6  1 control                 ┈┈┈ queued    0 │ ! r4 held up 3 rows for 1.0 s~",
    ]


def test_nine_lines_show_every_lane_the_width_and_the_slots() -> None:
    rows = drawn(state_of(burst()), 116, 9)
    heads = ["request", "r1", "r2", "r3", "r4", "r5", "r6", "running", "slots"]
    assert [row.split()[0] for row in rows] == heads
    assert rows[1].startswith("r1  1 control       ╌━━━━━━━━━━╍╍╍━━━━━━━━━━━━━━━━━✓     14.0  251")
    assert rows[7].startswith("running              3─────────────23────4──────────3 ")
    assert "▮ r3   ▮ r4   ▮ r5   ▯ free" in rows[8]
    assert "r4 r5 joined mid-flight" in rows[4]
    assert "INCONCLUSIVE  spread 0.13" in rows[5]
    assert "no baseline: ask 1 pane alone" in rows[6]
    assert "r4 held up 3 rows for 1.0 s (prefill)" in rows[8]


def test_a_burst_is_judged_against_the_request_that_ran_alone_before() -> None:
    alone = lone_request(START - 100, tokens=100, seconds=5.0)
    state = state_of([snapshot(time=START - 200), *alone, *burst()[1:]])
    assert "BATCHED  2.37x alone  spread 0.13  alone 20.0 tok/s" in "\n".join(drawn(state, 196, 13))
    assert drawn(state, 78, 5)[3].endswith("BATCHED  2.37x alone")
    assert "no baseline" not in "\n".join(drawn(state, 196, 13) + drawn(state, 78, 5))


@pytest.mark.parametrize(("width", "height", "rows"), [(78, 5, 1), (116, 9, 1), (196, 13, 3)])
def test_many_notices_are_the_latest_and_a_count(width: int, height: int, rows: int) -> None:
    state = state_of(burst())
    words = "held up 3 rows for a good while, since its prompt has thousands of tokens (prefill)"
    for n in range(7):
        state.notices.appendleft(Notice(START, f"{words} {n}", ("r4",)))
    shown = [row.partition("│")[2].strip() for row in drawn(state, width, height)]
    (first,) = (n for n, row in enumerate(shown) if row.startswith("! r4 held up"))
    last = first + rows - 1
    assert shown[last].endswith("+7 more")
    assert not any(shown[last + 1 :])
    assert any("aggregate" in row for row in shown)


def test_what_is_missing_for_a_verdict_is_said_at_eighty_columns_too() -> None:
    state = state_of(burst())
    state.notices.clear()
    assert drawn(state, 78, 5)[4].endswith("│ no baseline: ask 1 pane alone")


def test_wide_lanes_also_tell_wait_and_time_to_first_token() -> None:
    rows = drawn(state_of(burst()), 196, 13)
    assert rows[0].split()[:3] == ["request", "wait", "ttft"]
    assert rows[4].split()[:5] == ["r4", "4", "long-context", "0.0", "3.0"]
    assert "870 tok / 14.50 s, first submit to now" in rows[1]
    assert rows[12].startswith("┈ queued   ╌ prefill   ━ decode   ╍ stalled   ✓ done")


FROM_OUTSIDE = Capability(START, VIEW, "the batch", "our own requests", "it publishes no events")
LOAD = Load(START, "/slots /metrics", 4, 3, 12, 0.5)
METRICS = Load(START, "/metrics", None, 3, 12, 0.5)


@pytest.mark.parametrize(
    "events",
    [
        burst(),
        [snapshot()],
        [],
        [progress(5, 10)],
        [*burst(), Paused(NOW, True)],
        [snapshot(), FROM_OUTSIDE],
        [*burst(), FROM_OUTSIDE, LOAD],
        [*burst(), FROM_OUTSIDE, METRICS],
    ],
)
@pytest.mark.parametrize("signs", [glyphs.DEFAULT, glyphs.RICH, glyphs.ASCII])
def test_it_fits_any_size(events: list[Event], signs: Glyphs) -> None:
    state = state_of(events)
    for height in (1, 5, 9, 13, 60):
        for width in (1, 20, 58, 69, 70, 78, 99, 100, 116, 150, 196, 400):
            rows = layout(state, NOW, width, height, signs)
            assert len(rows) <= height
            if width >= 58:
                assert max(map(row_cells, rows)) <= width


def test_a_server_elsewhere_is_drawn_as_far_as_it_is_seen() -> None:
    state = state_of([*burst(), FROM_OUTSIDE, LOAD])
    rows = drawn(state, 116, 13)
    assert rows[4].startswith("r4  4 long-context           ┄┄┄┄┄┄┄━━━")
    assert "   sent    0" in rows[6]
    assert rows[11].startswith("slots  ▮▮▮▯  3 of 4 slots busy, 12 waiting, K/V 50%, says /slots")
    assert rows[12].startswith("┄ sent, no text yet   ━ text comes   ✓ done")
    assert "at once 3, max 4" in "\n".join(rows)
    assert title(state, "lab") == (
        "batch of lab   3 of 4 slots busy, 12 waiting, K/V 50%   by our stopwatch"
    )


def test_a_picked_lane_is_marked_and_always_shown() -> None:
    state = state_of(burst())
    rows = layout(state, NOW, 78, 3, DEFAULT, picked="r2")
    marked = [part.text for row in rows for part in row if part.style == "picked"]
    assert marked == ["r2  2 terse   "]


def test_running_lanes_come_before_queued_ones_and_those_before_finished_ones() -> None:
    events = [
        snapshot(slots=2),
        *(Queued(START + n, f"id{n}", "", 10, 100, 1) for n in range(12)),
        *(Admitted(START + 12, f"id{n}", n % 2, 0.0, False, 0) for n in (7, 10)),
        *(Finished(START + 13, f"id{n}", FinishReason.CANCELLED, 0, 1.0) for n in (0, 1)),
    ]
    rows = drawn(state_of(events), 78, 5, START + 15)
    assert [row.split()[0] for row in rows[1:]] == ["r3", "r4", "r8", "r11"]


@pytest.mark.parametrize(
    ("width", "height", "title"), [(78, 5, "+2 more "), (160, 5, "request +2 more ")]
)
def test_lanes_there_is_no_room_for_are_counted(width: int, height: int, title: str) -> None:
    assert drawn(state_of(burst()), width, height)[0].startswith(title)
    assert drawn(state_of(burst()), width, 12)[0].startswith("request ")


def test_a_legend_without_room_leaves_out_what_no_lane_shows() -> None:
    events = [
        snapshot(),
        Queued(START, "a", "", 10, 100, 1),
        Finished(START + 1, "a", FinishReason.CANCELLED, 0, 1.0),
    ]
    wide, narrow = (drawn(state_of(events), width, 13)[-1] for width in (196, 116))
    assert "done" in wide
    assert "failed" in wide
    assert "queued" in narrow
    assert "stopped" in narrow
    assert "failed" not in narrow


def test_what_others_send_cannot_break_the_columns() -> None:
    events: list[Event] = [snapshot(), Queued(START, "a", NASTY, 10, 100, 1)]
    events.append(Finished(START + 1, "a", FinishReason.ERROR, 0, 1.0, NASTY * 9))
    for width, height in ((78, 5), (116, 9), (196, 13)):
        for row in layout(state_of(events), START + 2, width, height, DEFAULT):
            text = "".join(part.text for part in row)
            assert "\x1b" not in text
            assert cell_len(text) == wcswidth(text) <= width
    assert "[/x] a[/]b ␛[31" in drawn(state_of(events), 196, 13, START + 2)[1]


def test_many_slots_are_counted_where_they_cannot_be_drawn() -> None:
    state = state_of([snapshot(slots=200), Queued(START, "a", "", 1, 1, 1)])
    assert "0 of 200 slots busy" in drawn(state, 116, 9)[8]


def test_ascii_signs_make_seven_bit_rows() -> None:
    for events in (burst(), [snapshot()], [progress(5, 10)]):
        rows = drawn(state_of(events), 196, 13, signs=glyphs.ASCII)
        assert "".join(rows).isascii()


def test_start_up_shows_the_stage_and_how_far_it_is() -> None:
    text = "\n".join(drawn(state_of([snapshot(), progress(37_200_000, 93_000_000)]), 78, 5))
    assert "fetch  model.gguf" in text
    assert "37.2 of 93.0 MB" in text
    assert "40%" in text
    assert text.count(DEFAULT.bar_done) == 24
    unknown = "\n".join(drawn(state_of([snapshot(), progress(5, 0, "tensors")]), 78, 5))
    assert "5 tensors" in unknown
    assert "%" not in unknown
    assert "waiting for the engine" in "\n".join(drawn(LiveState(), 78, 5))


def test_a_failed_engine_says_why_in_full() -> None:
    why = "no model at /models/[x]: " + "a long reason " * 12 + "end"
    failed = Status(START, EngineStatus.FAILED, error=why)
    rows = drawn(state_of([snapshot(), failed]), 78, 9)
    assert "! no model at /models/[x]: a long reason" in "\n".join(rows)
    assert any(row.endswith("end") for row in rows)


def test_the_last_burst_stays_in_sight_when_the_engine_stops() -> None:
    stopping = Status(NOW, EngineStatus.STOPPING)
    assert drawn(state_of([*burst(), stopping]), 78, 5) == drawn(state_of(burst()), 78, 5)


def test_a_refused_option_stays_in_sight_at_every_size() -> None:
    refusal = Capability(START, "quantized KV", "4-bit", "off", "heads of 16 values", refused=True)
    state = state_of([*burst(), refusal])
    assert title(state).endswith("refused: quantized KV")
    assert "! quantized KV: asked for 4-bit, got off" in "\n".join(drawn(state, 120, 9))
    assert "refused" in drawn(state, 160, 5)[0]


def test_an_idle_engine_lists_what_it_does_about_each_feature() -> None:
    facts = [
        Capability(START, "speculation", "off", "off", "not asked for"),
        Capability(START, "precision", "auto", "[b]fp32[/b]", "it fits"),
    ]
    rows = drawn(state_of([snapshot(), *facts]), 120, 9)
    assert any(row.endswith("speculation  off") for row in rows)
    assert any(row.endswith("precision    [b]fp32[/b]") for row in rows)


def test_an_idle_engine_explains_what_will_appear() -> None:
    rows = drawn(state_of([snapshot()]), 116, 9)
    assert "Nothing is running." in "\n".join(rows)
    assert "smollm2-135m" in rows[0]
    assert title(state_of([snapshot()])) == "batch   0 of 8 slots busy"


@pytest.mark.parametrize(
    ("mode", "height"),
    [(Mode.OFF, 0), (Mode.SMALL, 5), (Mode.MEDIUM, 11), (Mode.LARGE, 15), (Mode.FULL, 35)],
)
async def test_each_mode_has_its_height(mode: Mode, height: int) -> None:
    async with staged(mode=mode) as (panel, _):
        assert (panel.outer_size.height if panel.display else 0) == height


def test_modes_go_round() -> None:
    mode, seen = Mode.OFF, []
    for _ in Mode:
        seen.append(mode)
        mode = mode.next
    assert (set(seen), mode) == (set(Mode), Mode.OFF)


async def test_it_draws_the_state_and_heads_it_with_the_slots() -> None:
    async with staged() as (panel, pilot):
        panel.show(state_of(burst()), NOW)
        await pilot.pause()
        assert lines(panel)[1].startswith("r1  1 control")
        assert str(panel.border_title) == "batch   3 of 8 slots busy   1 queued"
        assert {len(line) for line in lines(panel)} == {panel.size.width}


async def test_it_follows_resizes_modes_and_themes_by_itself() -> None:
    async with staged((200, 50), Mode.LARGE) as (panel, pilot):
        panel.show(state_of(burst()), NOW)
        await pilot.pause()
        dark = panel.render_line(1)
        pilot.app.theme = "paper"
        await pilot.pause()
        assert panel.render_line(1).text == dark.text
        assert [s.style for s in panel.render_line(1)] != [s.style for s in dark]
        await pilot.resize_terminal(80, 24)
        panel.mode = Mode.SMALL
        await pilot.pause()
        assert lines(panel)[1].startswith("r3  3 hot")


async def test_an_idle_panel_is_never_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged() as (panel, pilot):
        ended = [Finished(NOW, f"r{n}", FinishReason.STOP, 1, 1.0) for n in (3, 4, 5, 6)]
        state = state_of([*burst(), *ended])
        panel.show(state, NOW)
        await pilot.pause()
        painted: list[int] = []
        real = BatchPanel.render_line
        monkeypatch.setattr(
            BatchPanel, "render_line", lambda self, y: painted.append(y) or real(self, y)
        )
        for second in range(5):
            panel.show(state, NOW + second)
            await pilot.pause()
        assert painted == []


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (
            Speculation(NOW, "ngram", 7, 0.82, 2.9),
            "ngram 7 ahead; 82% accepted, 2.90 tok/forward",
        ),
        (
            Speculation(NOW, "ngram", 0, None, 1.0, "verify 4 wide costs 1.9x at 8 rows"),
            "no draft: verify 4 wide costs 1.9x at 8 rows; 1.00 tok/forward",
        ),
    ],
)
def test_the_panel_says_how_drafts_fare(told: Speculation, shown: str) -> None:
    assert "tok/forward" not in " ".join(drawn(state_of(burst()), 160, 20))
    right = [line.rpartition("│")[2].strip() for line in drawn(state_of([*burst(), told]), 160, 20)]
    assert shown in " ".join(right)


async def test_only_rows_that_changed_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged() as (panel, pilot):
        state = state_of(burst())
        panel.show(state, NOW)
        await pilot.pause()
        painted: set[int] = set()
        real = BatchPanel.render_line
        monkeypatch.setattr(
            BatchPanel, "render_line", lambda self, y: painted.add(y) or real(self, y)
        )
        state.apply(Step(NOW, "decode", 3, {"r5": 1}, 50.0))
        panel.show(state, NOW)
        await pilot.pause()
        assert 5 in painted  # the lane that gained a token
        assert not painted & {3, 4, 6, 8}  # lanes that gained none, and the slots


def test_what_was_copied_instead_of_read_is_counted() -> None:
    events: list[Event] = [snapshot()]
    for number, copied in enumerate((0, 599, 599)):
        name = f"q{number}"
        events += [
            Queued(START, name, "1 pane", 600, 8, 1),
            Admitted(START, name, number, 0.0, False, copied),
        ]
    rows = drawn(state_of(events), 100, 9)
    assert any("1,198 of 1,800 prompt tok copied" in row for row in rows)


def test_a_request_that_had_to_make_room_is_queued_again_and_the_panel_says_so() -> None:
    events: list[Event] = [
        snapshot(),
        Queued(START, "q1", "1 pane", 5, 90, 1),
        Admitted(START, "q1", 0, 0.0, False, 0),
        Step(START + 1, "decode", 1, {"q1": 7}, 50.0),
        Preempted(START + 2, "q1", "K/V memory is short", 7),
    ]
    state = state_of(events)
    rows = drawn(state, 100, 9)
    assert any("queued    7" in row for row in rows)
    assert any("K/V memory is short" in row for row in rows)
    assert title(state).endswith("1 queued")
    state.apply(Admitted(START + 3, "q1", 0, 3.0, False, 11))
    assert not any("queued" in row for row in drawn(state, 100, 9)[1:3])


def test_a_stuck_engine_still_shows_its_lanes() -> None:
    state = state_of([*burst(), Status(NOW, EngineStatus.STUCK, error="stuck for 130 s in a step")])
    assert "slots busy" in title(state)
    assert any("long-co" in row for row in drawn(state, 78, 5))
