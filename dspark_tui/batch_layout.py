"""The batch panel as rows of styled parts, for any size. Pure; the widget only paints them.

On the left a table of lanes on one time axis, on the right what the lanes add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len

from dspark_tui.glyphs import Glyphs
from dspark_tui.lanes import Axis, Cell, Lane, lane_cells
from dspark_tui.live import LiveState
from dspark_tui.wrap import cut, drawable, wrap
from engine.events import EngineStatus, Phase

ROOMY = 8
"""Rows from which the panel has room for more than lanes."""
LEGEND = 12
STYLES = ("text", "dim", "strong", "rule", "warning", "error", "width", *Cell)


class Part(NamedTuple):
    """Text in one style; the style names a component class of the panel."""

    text: str
    style: str = "text"


Row = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the lanes' table. value: what it shows of a lane at a time."""

    title: str
    width: int
    value: Callable[[Lane, float], Part]


def layout(state: LiveState, now: float, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """At most `height` rows of `width` cells."""
    if state.engine.status is EngineStatus.FAILED:
        return _failed(state, width, height, glyphs)
    if state.engine.status is not EngineStatus.OK:
        return _starting(state, width, height, glyphs)
    side = 60 if width >= 150 else 40 if width >= 100 else 31
    left = _Table(state, now, width - side - 3, height, glyphs).rows()
    right = _numbers(state, now, side, height, glyphs)
    rows = []
    for number in range(height):
        lane_row = left[number] if number < len(left) else ()
        side_row = right[number] if number < len(right) else ()
        filler = Part(" " * (width - side - 3 - row_cells(lane_row)))
        rows.append((*lane_row, filler, Part(f" {glyphs.rule} ", "rule"), *side_row))
    return rows


def title(state: LiveState) -> str:
    """The panel's heading: slots in use and the queue."""
    if state.engine.status is not EngineStatus.OK:
        return "batch"
    queued = len(state.queue)
    return f"batch   {_busy(state)}" + (f"   {queued} queued" if queued else "")


def row_cells(row: Iterable[Part]) -> int:
    return sum(cell_len(part.text) for part in row)


class _Table:
    """The left side: header with the axis, lanes, then running width, slots and legend."""

    def __init__(
        self, state: LiveState, now: float, width: int, height: int, glyphs: Glyphs
    ) -> None:
        self.state, self.glyphs, self.width = state, glyphs, width
        self.now = state.end(now)
        footers = [self._running, self._slots, self._legend]
        self.footers = footers[: (height >= ROOMY) * 2 + (height >= LEGEND)]
        self.room = height - 1 - len(self.footers)
        self.lanes = _shown(state.lanes, self.room)
        self.before, self.after = _columns(width, glyphs)
        used = sum(column.width for column in self.before + self.after)
        start = min((lane.request.queued for lane in self.lanes), default=0.0)
        self.axis = Axis.fit(start, self.now, width - used)

    def rows(self) -> list[Row]:
        if not self.lanes:
            return _idle(self.state, self.width)
        lanes = [self._header(), *(self._lane(lane) for lane in self.lanes)]
        running, *others = [footer() for footer in self.footers] or [()]
        blank: list[Row] = [()] * (self.room - len(self.lanes))
        return [*lanes, running, *blank, *others]

    def _header(self) -> Row:
        line = [" "] * self.axis.columns
        for column, label in self.axis.ticks:
            line[column : column + len(label)] = label
        return (
            *(Part(_aligned(c.title, c.width, c is self.before[0]), "dim") for c in self.before),
            Part("".join(line)[: self.axis.columns], "dim"),
            *(Part(c.title.rjust(c.width), "dim") for c in self.after),
        )

    def _lane(self, lane: Lane) -> Row:
        cells = lane_cells(lane, self.axis, self.now)
        return (
            *(column.value(lane, self.now) for column in self.before),
            *_runs(cells, self.glyphs),
            *(column.value(lane, self.now) for column in self.after),
        )

    def _running(self) -> Row:
        """The running width over the lanes' axis, as tall as the slots it fills."""
        levels, slots = self.glyphs.levels, max(1, self.state.engine.slots)
        middles = [time for time in self.axis.middles if time <= self.now]
        line = "".join(
            levels[min(len(levels), -(-width * len(levels) // slots)) - 1] if width else " "
            for width in self.state.widths.at(middles)
        )
        lead = sum(column.width for column in self.before)
        return (
            Part("running".ljust(lead), "dim"),
            Part(line.ljust(self.axis.columns), "width"),
        )

    def _slots(self) -> Row:
        parts = [Part("slots  ", "dim")]
        occupancy = self.state.occupancy
        named = 7 * len(occupancy) + 8 <= self.width
        for lane in occupancy:
            busy = lane is not None
            sign = self.glyphs.slot_busy if busy else self.glyphs.slot_free
            parts.append(Part(sign, "decode" if busy else "queued"))
            if named:
                parts.append(Part(f" r{lane.number}".ljust(6) if lane else " free ", "dim"))
        return tuple(parts) if row_cells(parts) <= self.width else (Part(_busy(self.state), "dim"),)

    def _legend(self) -> Row:
        names = {
            "queued": "queued",
            "prefill": "prefill",
            "decode": "decode",
            "stall": "stalled",
            "done": "done",
            "length": "token limit",
            "stopped": "stopped",
            "failed": "failed",
        }
        parts: list[Part] = []
        for cell, name in names.items():
            parts += [Part(getattr(self.glyphs, cell), cell), Part(f" {name}   ", "dim")]
        while row_cells(parts) > self.width:
            del parts[-2:]
        return tuple(parts)


def _columns(width: int, glyphs: Glyphs) -> tuple[list[Column], list[Column]]:
    """What the table shows before and after the lanes, as the width allows."""

    def seconds(title: str, value: Callable[[Lane, float], float | None]) -> Column:
        return Column(title, 7, lambda lane, now: _number(value(lane, now), "{:.1f}", 7, glyphs))

    label = 10 if width < 60 else 14 if width < 100 else 20
    before = [Column("request", label, lambda lane, now: _name(lane, label))]
    if width >= 100:
        before.append(seconds("wait", lambda lane, now: lane.waited(now)))
        before.append(seconds("ttft ", lambda lane, now: lane.ttft))
        before.append(Column("", 2, lambda lane, now: Part("  ")))
    after = [
        Column("end", 7, lambda lane, now: _end(lane, glyphs)),
        Column("tok", 6, lambda lane, now: Part(f"{lane.request.tokens:6}", "text")),
    ]
    if width >= 60:
        after.append(Column("tok/s", 7, lambda lane, now: _number(lane.rate, "{:.1f}", 7, glyphs)))
    return before, after


def _name(lane: Lane, width: int) -> Part:
    return Part(cut(f"r{lane.number:<3} {lane.label}", width - 1, "") + " ", "text")


def _end(lane: Lane, glyphs: Glyphs) -> Part:
    if lane.request.phase is Phase.QUEUED:
        return Part(" queued", "queued")
    return _number(lane.completion_time, "{:.1f}", 7, glyphs)


def _number(value: float | None, form: str, width: int, glyphs: Glyphs) -> Part:
    text = glyphs.dash if value is None else form.format(value)
    return Part(text.rjust(width), "dim" if value is None else "text")


def _aligned(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def _runs(cells: list[Cell], glyphs: Glyphs) -> Iterator[Part]:
    for cell, run in groupby(cells):
        count = sum(1 for _ in run)
        sign = " " if cell is Cell.EMPTY else getattr(glyphs, cell)
        yield Part(sign * count, "decode" if cell is Cell.RUNNING else cell)


def _shown(lanes: list[Lane], room: int) -> list[Lane]:
    """The lanes worth a row: running first, then who waits, then who left last; in order."""
    order = {Phase.PREFILL: 0, Phase.DECODE: 0, Phase.QUEUED: 1, Phase.FINISHED: 2}
    ranked = sorted(lanes, key=lambda lane: -(lane.request.finished or 0.0))
    ranked.sort(key=lambda lane: order[lane.request.phase])
    return sorted(ranked[: max(0, room)], key=lambda lane: lane.number)


def _busy(state: LiveState) -> str:
    occupied = sum(lane is not None for lane in state.occupancy)
    return f"{occupied} of {state.engine.slots} slots busy"


def _numbers(state: LiveState, now: float, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The right side: what the lanes add up to, and what is worth a look."""
    roomy = height >= ROOMY
    rows: list[Row] = []
    if not roomy:
        rows.append((Part(title(state).removeprefix("batch   "), "dim"),))
    if state.burst is not None:
        rows += _aggregate(state, now, width, glyphs)
        rows += [()] if roomy else []
        rows.append(_width(state, now))
        rows += _joined(state, width) if roomy or not state.notices else []
    elif state.engine.model is not None:
        rows.append((Part(cut(state.engine.model.id, width).rstrip(), "text"),))
        context = _grouped(state.engine.model.context)
        rows.append((Part(f"{state.engine.model.precision}   context {context} tok", "dim"),))
    rows += [()] if roomy and state.notices else []
    for notice in state.notices:
        rows += _wrapped(f"{glyphs.warning} {notice}", width, "warning", 2 if roomy else 1)
    return rows[:height]


def _aggregate(state: LiveState, now: float, width: int, glyphs: Glyphs) -> list[Row]:
    total = state.aggregate(now)
    if total is None:
        return []
    arithmetic = f"{_grouped(total.tokens)} tok {glyphs.divide} {total.seconds:.2f} s"
    since = ", first submit to " + ("now" if state.active else "last token")
    return [
        (Part(f"{total.rate:.1f} tok/s", "strong"), Part(" aggregate", "dim")),
        (Part(arithmetic, "text"), Part(since if width >= 50 else "", "dim")),
    ]


def _width(state: LiveState, now: float) -> Row:
    start = state.burst.start if state.burst else 0.0
    mean = state.widths.mean(start, state.end(now))
    peak = state.widths.peak(start)
    running = sum(lane.request.phase is Phase.DECODE for lane in state.lanes)
    return (
        Part(f"{running}", "text"),
        Part(" decode together, ", "dim"),
        Part(f"max {peak}, mean {mean:.1f}", "text"),
    )


def _joined(state: LiveState, width: int) -> list[Row]:
    """Who was admitted while others were decoding, in words."""
    names = [f"r{lane.number}" for lane in state.lanes if lane.mid_flight]
    if not names:
        return []
    most = max(1, (width - 24) // 4)
    hidden = f" and {len(names) - most} more" if len(names) > most else ""
    return _wrapped(f"{' '.join(names[-most:])}{hidden} joined mid-flight", width, "text", 1)


def _wrapped(text: str, width: int, style: str, most: int) -> list[Row]:
    text = drawable(text.replace("\n", " "))
    slices = wrap(text, width, hang=2)
    if len(slices) > most:
        slices = [*slices[: most - 1], (slices[most - 1][0], len(text))]
    rows: list[Row] = [(Part(cut(text[slice(*slices[0])], width).rstrip(), style),)]
    for start, end in slices[1:]:
        rows.append((Part("  "), Part(cut(text[start:end], width - 2).rstrip(), style)))
    return rows


def _idle(state: LiveState, width: int) -> list[Row]:
    text = (
        "Nothing is running. Every request the engine serves gets a line here: how long it waited, "
        "when its prompt was read, when it wrote, and who wrote beside it."
    )
    return [(), *_wrapped(text, width, "dim", 4)]


def _starting(state: LiveState, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    progress = state.engine.progress
    if progress is None:
        return [(), (Part("waiting for the engine", "dim"),)]
    rows: list[Row] = [(Part(progress.stage, "strong"), Part(f"  {drawable(progress.detail)}"))]
    if progress.total:
        columns = min(60, width - 8)
        share = min(1.0, progress.done / progress.total)
        done = round(share * columns)
        rows.append(
            (
                Part(glyphs.bar_done * done, "decode"),
                Part(glyphs.bar_left * (columns - done), "queued"),
                Part(f" {share:5.0%}", "text"),
            )
        )
    if progress.done or progress.total:
        rows.append((Part(_amount(progress.done, progress.total, progress.unit), "dim"),))
    return _centred(rows, height)


def _failed(state: LiveState, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    text = f"{glyphs.failed} {state.engine.error or 'the engine failed'}"
    return _centred(_wrapped(text, width, "error", height), height)


def _centred(rows: list[Row], height: int) -> list[Row]:
    above = max(0, (height - len(rows)) // 3)
    return ([()] * above + rows)[:height]


def _amount(done: int, total: int, unit: str) -> str:
    if unit == "bytes":
        of = f" of {total / 1e6:,.1f}" if total else ""
        return f"{done / 1e6:,.1f}{of} MB".replace(",", " ")
    of = f" of {_grouped(total)}" if total else ""
    return f"{_grouped(done)}{of} {unit}".rstrip()


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", " ")
