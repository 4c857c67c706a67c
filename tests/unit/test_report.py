"""The report of a bench: what it keeps, that it can be computed again, how it reads."""

from __future__ import annotations

import io
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from rich.console import Console

from dspark_tui.appearance.glyphs import ASCII, DEFAULT
from dspark_tui.commands.bench import exit_code
from dspark_tui.commands.bench_progress import Progress
from dspark_tui.commands.bench_text import report_rows
from engine.proof.notes import Circumstances
from engine.proof.probes import Examination, Kind, Plan, Round
from engine.proof.report import Report
from engine.proof.svg import picture
from engine.proof.traffic import Ask, Record
from engine.proof.verdict import Name
from tests.proof import simulated
from tests.proof.simulated import Behaviour, SimulatedServer, virtually

PLAN = Plan((1, 2, 8), tokens=40, repeat=2)
ELSEWHERE = Circumstances(
    "dspark-tui bench http://x", "dspark-tui 9", "Test 1 CPU", "http://x/<&>", "a[b]/model", ()
)


def rounds_of(behaviour: Behaviour, plan: Plan = PLAN) -> list[Round]:
    async def examine() -> list[Round]:
        async with SimulatedServer(behaviour, 3) as server:
            examination = Examination(server, plan)
            await examination.run()
            return examination.rounds

    return virtually(examine)


@pytest.fixture(scope="module")
def good() -> Report:
    return Report.of(rounds_of(simulated.CONSTANT), PLAN, ELSEWHERE)


def shown(report: Report, width: int = 100) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    for row in report_rows(report, width, DEFAULT):
        console.print(row)
    return out.getvalue()


@pytest.mark.parametrize(
    "behaviour", [simulated.SERIAL, simulated.GROUPS, simulated.STATIC, simulated.ONE_CHUNK]
)
def test_a_file_leads_to_the_same_figures_again(behaviour: Behaviour) -> None:
    report = Report.of(rounds_of(behaviour), PLAN, ELSEWHERE)
    read = Report.model_validate_json(report.model_dump_json())
    assert read == report
    again = Report.of([round_.round() for round_ in read.rounds], PLAN, ELSEWHERE)
    assert again.model_copy(update={"created": read.created}) == read


def test_figures_are_what_the_requests_say(good: Report) -> None:
    """Worked out by hand from the rounds alone."""
    wide = next(width for width in good.widths if width.n == 8)
    bursts = [r.requests for r in good.rounds if r.kind is Kind.SWEEP and len(r.requests) == 8]
    seconds = [max(q.end for q in burst) - min(q.submit for q in burst) for burst in bursts]  # type: ignore[type-var, operator]
    assert wide.last_end == pytest.approx(sum(seconds) / 2, abs=1e-4)
    rates = [8 * 40 / each for each in seconds]
    assert wide.tokens_per_second == pytest.approx(sum(rates) / 2, rel=1e-3)
    assert good.baseline is not None
    assert wide.climb == pytest.approx(sum(rates) / 2 / good.baseline.tokens_per_second, rel=1e-2)
    assert (wide.n, wide.repeats, wide.verdict) == (8, 2, Name.BATCHED)
    assert sorted(wide.ends) == wide.ends
    assert good.widths[0].verdict is None


def test_it_reads_well_at_any_width_and_takes_foreign_names_literally(good: Report) -> None:
    for width in (60, 100):
        text = shown(good, width)
        assert max(map(len, text.splitlines())) <= width
    assert "http://x/<&>  model a[b]/model" in text
    assert "BATCHED All 8 ran together" in text
    assert text.count("r8 ") == 1
    assert "Not tested\n  more than 8 requests at once" in text


def test_what_was_left_out_is_named() -> None:
    plan = replace(PLAN, probes=(Kind.RELEASE,))
    report = Report.of(rounds_of(simulated.CONSTANT, plan), plan, ELSEWHERE)
    questions = "\n".join(report.not_tested)
    assert "staggered: can a request join" in questions
    assert "release" not in questions


def test_answers_that_end_early_are_said_with_what_was_compared() -> None:
    rounds = rounds_of(simulated.CONSTANT)
    for record in rounds[2].records:
        record.ask = replace(record.ask, max_tokens=64)
    report = Report.of(rounds, PLAN, ELSEWHERE)
    assert any(note.startswith("8 of ") and "ended early" in note for note in report.notes)
    kept = replace(ELSEWHERE, fixed_length=("ignore_eos",))
    assert any("in spite of ignore_eos" in note for note in Report.of(rounds, PLAN, kept).notes)


def test_a_round_cut_short_counts_for_nothing_but_is_kept() -> None:
    rounds = rounds_of(simulated.CONSTANT, replace(PLAN, repeat=1, probes=()))
    rounds[-1].done = False
    rounds[-1].records[-1].end = None
    rounds.append(Round(Kind.SWEEP, [Record(Ask("never sent", 40))]))
    report = Report.of(rounds, PLAN, replace(ELSEWHERE, interrupted=True))
    assert [width.n for width in report.widths] == [1, 2]
    assert len(report.rounds) == 4
    assert report.notes[0].startswith("Stopped before the end")
    assert "N=2" in shown(report)


def test_nothing_at_all_is_still_a_report() -> None:
    report = Report.of([], PLAN, ELSEWHERE)
    assert report.verdict is Name.INCONCLUSIVE
    assert exit_code(report) == 1
    assert "INCONCLUSIVE" in shown(report)
    ET.fromstring(picture(report))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (Name.BATCHED, 0),
        (Name.QUEUE, 3),
        (Name.LOCKSTEP, 3),
        (Name.GROUPS, 3),
        (Name.STATIC, 3),
        (Name.WINDOW, 3),
        (Name.MIXED, 2),
        (Name.INCONCLUSIVE, 2),
    ],
)
def test_exit_codes(good: Report, name: Name, code: int) -> None:
    assert exit_code(good.model_copy(update={"verdict": name})) == code


def test_the_picture_has_a_lane_for_each_request_on_one_scale(good: Report) -> None:
    root = ET.fromstring(picture(good))
    bars = [e for e in root.iter() if e.get("class") == "write"]
    assert len(bars) == 8
    assert len({bar.get("y") for bar in bars}) == 8
    requests = good.rounds[-1 - len(good.probes)].requests
    starts = [float(bar.get("x", 0)) for bar in bars]
    ends = [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in bars]
    for places, times in ((starts, [q.first for q in requests]), (ends, [q.end for q in requests])):
        in_time = [place for _, place in sorted(zip(times, places, strict=True))]
        assert in_time == sorted(places)
        assert max(places) > min(places)


def test_progress_is_a_line_for_each_round_where_nobody_watches() -> None:
    out = io.StringIO()
    plan = replace(PLAN, repeat=1, probes=())
    with Progress(Console(file=out, width=40), plan, ASCII) as progress:
        progress.stage("warming up")
        for round_ in rounds_of(simulated.CONSTANT, plan):
            progress.round(replace(round_, done=False))
            progress.round(round_)
    lines = out.getvalue().splitlines()
    assert lines[0] == "warming up"
    assert lines[3].startswith("round 3 of 3, N=8 (1 of 1): 8 of 8 requests ended, the last after")


def test_progress_on_a_terminal_draws_the_lanes_of_the_round_that_runs() -> None:
    out = io.StringIO()
    plan = replace(PLAN, repeat=1, probes=())
    console = Console(file=out, width=60, force_terminal=True, color_system=None)
    with Progress(console, plan, DEFAULT) as progress:
        *_, wide = rounds_of(simulated.CONSTANT, plan)
        since = time.monotonic() - 1 - max(record.end or 0 for record in wide.records)
        for number, record in enumerate(wide.records):
            record.submit = since + (record.submit or 0)
            record.arrivals = [since + arrival for arrival in record.arrivals]
            record.end = since + (record.end or 0) if number < 4 else None
        progress.round(replace(wide, done=False))
        console.print(progress.drawn())
    frame = out.getvalue()
    assert "round 1 of 3, N=8 (1 of 1)" in frame
    assert all(f"r{n} " in frame for n in range(1, 9))
    assert frame.count(f"{DEFAULT.decode * 5}{DEFAULT.length}") >= 4
    assert frame.count(f"{DEFAULT.decode * 5}{DEFAULT.running}") >= 4
