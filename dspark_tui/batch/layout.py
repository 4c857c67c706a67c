"""The batch panel as rows of styled parts, for any size. Pure; the widget only paints them.

On the left a table of lanes on one time axis, on the right what the lanes add up to.
"""

from __future__ import annotations

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.lane_table import ROOMY, LaneTable, slots_busy
from dspark_tui.batch.live import VIEW, LiveState
from dspark_tui.batch.parts import Part, Row, row_cells, wrapped
from dspark_tui.text.foreign import drawable
from dspark_tui.text.wrap import cut
from engine.events import EngineStatus, Phase
from engine.proof.shape import Solo
from engine.proof.verdict import Name, Verdict

UNKNOWN_GAIN = "no baseline: ask 1 pane alone"
"""What to do where nobody knows how fast one request is by itself."""

NOTICE_ROWS = 3
"""For all of them, where there is most room: they come on top of the figures."""

NARROW = 70
"""Columns below which the lanes need all of them."""
PAUSED = "paused: new requests wait"


def layout(
    state: LiveState, now: float, width: int, height: int, glyphs: Glyphs, picked: str = ""
) -> list[Row]:
    """At most `height` rows of `width` cells. picked: the request whose lane is marked."""
    if state.engine.status is EngineStatus.FAILED:
        return _failed(state, width, height, glyphs)
    if state.engine.status is EngineStatus.LOADING:
        return _starting(state, width, height, glyphs)
    side = 60 if width >= 150 else 40 if width >= 100 else 30
    if width < NARROW:
        return LaneTable(state, now, width, height, glyphs, picked).rows()[:height]
    lanes_width = width - side - 3
    left = LaneTable(state, now, lanes_width, height, glyphs, picked).rows()
    right = _numbers(state, now, side, height, glyphs)
    rows = []
    for number in range(height):
        lane_row = left[number] if number < len(left) else ()
        side_row = right[number] if number < len(right) else ()
        filler = Part(" " * (lanes_width - row_cells(lane_row)))
        rows.append((*lane_row, filler, Part(f" {glyphs.rule} ", "rule"), *side_row))
    return rows


def title(state: LiveState, engine: str = "") -> str:
    """The panel's heading: slots in use, the queue, what is refused. engine: its name, where there
    are several."""
    heading = f"batch of {engine}" if engine else "batch"
    if state.engine.status not in (EngineStatus.OK, EngineStatus.STUCK, EngineStatus.STOPPING):
        return heading
    return f"{heading}   {_busy(state)}"


def _busy(state: LiveState) -> str:
    parts = [slots_busy(state)]
    if state.by_stopwatch:
        parts.append("by our stopwatch")
    elif queued := len(state.queue):
        parts.append(f"{queued} queued")
    if state.engine.paused:
        parts.append(PAUSED)
    if refused := [c.feature for c in state.refusals]:
        parts.append(f"refused: {', '.join(refused)}")
    return "   ".join(parts)


def _numbers(state: LiveState, now: float, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The right side: what the lanes add up to, and what is worth a look."""
    roomy = height >= ROOMY
    rows: list[Row] = []
    if not roomy:
        rows += wrapped(_busy(state), width, "dim", 2, hang=0)
    if state.burst is not None:
        rows += _aggregate(state, now, width, glyphs)
        rows += [()] if roomy else []
        judged = state.verdict
        verdict = _verdict(judged, state.solo, width)
        decided = judged is not None and judged.name is not Name.INCONCLUSIVE
        rows += verdict if decided and not roomy else _width(state, now)
        rows += verdict[1:] if not decided and not roomy and not state.notices else []
        rows += _joined(state, width) if roomy or not state.notices else []
        rows += _copied(state, width)
        rows += _drafts(state, width)
        rows += verdict if roomy else []
    elif state.engine.model is not None:
        rows.append((Part(cut(state.engine.model.id, width).rstrip(), "text"),))
        rows += _model(state, width)
    rows += [()] if roomy and (state.refusals or state.notices) else []
    for refusal in state.refusals:
        rows += wrapped(f"{glyphs.warning} {refusal}", width, "warning", 3 if roomy else 1)
    rows += _notices(state, width, min(NOTICE_ROWS if roomy else 1, height - len(rows)), glyphs)
    if state.burst is None and not state.by_stopwatch:
        rows += _capabilities(state, width)
    return rows[:height]


def _notices(state: LiveState, width: int, most: int, glyphs: Glyphs) -> list[Row]:
    """The latest, and how many came before it, on at most `most` rows."""
    if not state.notices or most < 1:
        return []
    latest, *earlier = (f"{glyphs.warning} {notice}" for notice in state.notices)
    more = f"  +{len(earlier)} more" if earlier else ""
    if most == 1:
        return [(Part(cut(latest, width - len(more)).rstrip() + more, "warning"),)]
    rows = wrapped(latest, width, "warning", most - bool(more))
    return rows + ([(Part(more, "dim"),)] if more else [])


def _model(state: LiveState, width: int) -> list[Row]:
    """What is known of the model, or why so little is."""
    model = state.engine.model
    assert model is not None
    if state.by_stopwatch:
        return wrapped(state.engine.capabilities[VIEW].why, width, "dim", 3, hang=0)
    return [(Part(f"{model.precision}   context {model.context:,} tok", "dim"),)]


def _capabilities(state: LiveState, width: int) -> list[Row]:
    """What the engine does about each feature; those it refused have been told."""
    done = [c for c in state.engine.capabilities.values() if not c.refused]
    column = max((len(c.feature) for c in done), default=0) + 2
    return [
        (
            Part(cut(c.feature, column), "dim"),
            Part(cut(c.effective, width - column).rstrip(), "text"),
        )
        for c in done
    ]


def _aggregate(state: LiveState, now: float, width: int, glyphs: Glyphs) -> list[Row]:
    total = state.aggregate(now)
    if total is None:
        return []
    arithmetic = f"{total.tokens:,} tok {glyphs.divide} {total.seconds:.2f} s"
    since = ", first submit to " + ("now" if state.active else "last token")
    return [
        (Part(f"{total.rate:.1f} tok/s", "strong"), Part(" aggregate", "dim")),
        (Part(arithmetic, "text"), Part(since if width >= 50 else "", "dim")),
    ]


def _width(state: LiveState, now: float) -> list[Row]:
    start = state.burst.start if state.burst else 0.0
    peak = state.widths.peak(start)
    if not peak:
        return []
    mean = state.widths.mean(start, state.end(now))
    running = sum(lane.request.phase is Phase.DECODE for lane in state.lanes)
    words = (f"{running}, " if running else "") + f"max {peak}, mean {mean:.1f}"
    label = "at once " if state.by_stopwatch else "batch width "
    return [(Part(label, "dim"), Part(words, "text"))]


def _verdict(verdict: Verdict | None, solo: Solo | None, width: int) -> list[Row]:
    """What the requests sent together show, with the figures that decide, or what is missing."""
    if verdict is None or verdict.shape is None:
        return []
    gain = verdict.shape.gain
    row = [Part(verdict.name.upper(), "strong")]
    if gain:
        row.append(Part(f"  {gain:.2f}x alone", "text"))
    row.append(Part(f"  spread {verdict.shape.spread:.2f}", "dim"))
    if solo and width >= 50:
        row.append(Part(f"  alone {solo.rate:.1f} tok/s", "dim"))
    while row_cells(row) > width:
        row.pop()
    return (
        [tuple(row)] if gain else [tuple(row), (Part(cut(UNKNOWN_GAIN, width).rstrip(), "text"),)]
    )


def _joined(state: LiveState, width: int) -> list[Row]:
    """Who was admitted while others were decoding, in words."""
    names = [f"r{lane.number}" for lane in state.lanes if lane.mid_flight]
    if not names:
        return []
    for count in range(len(names), 0, -1):
        more = f"+{len(names) - count} " if count < len(names) else ""
        words = f"{' '.join(names[-count:])} {more}joined mid-flight"
        if len(words) <= width:
            break
    return [(Part(cut(words, width).rstrip(), "text"),)]


def _copied(state: LiveState, width: int) -> list[Row]:
    """How much of the prompts was copied from other rows instead of read, where anything was."""
    requests = [lane.request for lane in state.lanes]
    copied = sum(request.cached_tokens for request in requests)
    total = sum(request.prompt_tokens for request in requests)
    text = f"{copied:,} of {total:,} prompt tok copied"
    return [(Part(cut(text, width).rstrip(), "text"),)] if copied else []


def _drafts(state: LiveState, width: int) -> list[Row]:
    """How speculation fares, where there is any."""
    drafts = state.engine.speculation
    if drafts is None:
        return []
    accepted = "" if drafts.acceptance is None else f"{drafts.acceptance:.0%} accepted, "
    now = f"{drafts.drafter} {drafts.length} ahead" if drafts.length else f"no draft: {drafts.why}"
    text = f"{now}; {accepted}{drafts.tokens_per_forward:.2f} tok/forward"
    return wrapped(text, width, "dim", 2, hang=0)


def _starting(state: LiveState, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    progress = state.engine.progress
    if progress is None:
        return _centred([(Part("waiting for the engine", "dim"),)], height)
    stage, detail = drawable(progress.stage), drawable(progress.detail)
    rows: list[Row] = [(Part(stage, "strong"), Part(f"  {detail}"))]
    if progress.total:
        columns = min(60, width - 8)
        done = columns * progress.done // progress.total
        rows.append(
            (
                Part(glyphs.bar_done * done, "decode"),
                Part(glyphs.bar_left * (columns - done), "queued"),
                Part(f" {progress.percent:4d}%", "text"),
            )
        )
    if progress.done or progress.total:
        rows.append((Part(_amount(progress.done, progress.total, progress.unit), "dim"),))
    return _centred(rows, height)


def _failed(state: LiveState, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    text = f"{glyphs.failed} {state.engine.error or 'the engine failed'}"
    return _centred(wrapped(text, width, "error", height), height)


def _centred(rows: list[Row], height: int) -> list[Row]:
    above = max(0, (height - len(rows)) // 3)
    return ([()] * above + rows)[:height]


def _amount(done: int, total: int, unit: str) -> str:
    if unit == "bytes":
        of = f" of {total / 1e6:,.1f}" if total else ""
        return f"{done / 1e6:,.1f}{of} MB"
    of = f" of {total:,}" if total else ""
    return f"{done:,}{of} {unit}".rstrip()
