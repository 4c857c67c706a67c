"""The batch panel's left side: lanes on one time axis, the running width, the slots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, groupby, pairwise

from msgspec import Struct

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.cell import Cell
from dspark_tui.batch.ending import ending_by
from dspark_tui.batch.lanes import Axis, Lane, lane_cells
from dspark_tui.batch.live import LiveState
from dspark_tui.batch.parts import Part, Row, row_cells, wrapped
from dspark_tui.text.wrap import cut
from engine.events import Load, Phase
from engine.types import FinishReason

ROOMY = 8
"""Rows from which the panel has room for more than lanes."""
LEGEND = 12
FOREIGN = "*"
"""Before the label of a request that another client of the engine sent."""
ENDS: dict[str, str] = {end.cell: end for end in map(ending_by, FinishReason)}
LEGEND_NAMES = {
    "queued": "queued",
    "prefill": "prefill",
    "decode": "decode",
    "stall": "stalled",
    **ENDS,
}
LEGEND_BY_STOPWATCH = {"sent": "sent, no text yet", "decode": "text comes", **ENDS}


class Column(Struct, frozen=True):
    """A column of the lanes' table. value: what it shows of a lane at a time."""

    title: str
    width: int
    value: Callable[[Lane, float], Part]


class LaneTable:
    """The left side: header with the axis, lanes, then running width, slots and legend."""

    def __init__(
        self,
        state: LiveState,
        now: float,
        width: int,
        height: int,
        glyphs: Glyphs,
        picked: str = "",
    ) -> None:
        self.state, self.glyphs, self.width = state, glyphs, width
        self.now = state.end(now)
        self.footers = [self._running, self._slots] if height >= ROOMY else []
        self.footers += [self._legend] if height >= LEGEND else []
        self.room = height - 1 - len(self.footers)
        lanes = state.lanes
        self.lanes = _shown(lanes, self.room, picked)
        self.hidden = len(lanes) - len(self.lanes)
        self.before, self.after = _columns(width, glyphs, picked)
        used = sum(column.width for column in self.before + self.after)
        start = min((lane.request.queued for lane in self.lanes), default=0.0)
        self.axis = Axis.fit(start, self.now, width - used)
        self.drawn = set[Cell]()  # the signs of the lanes drawn so far

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
        name, *figures = self.before
        return (
            Part(cut(self._title(name), name.width), "dim"),
            *(Part(c.title.rjust(c.width), "dim") for c in figures),
            Part("".join(line)[: self.axis.columns], "dim"),
            *(Part(c.title.rjust(c.width), "dim") for c in self.after),
        )

    def _title(self, name: Column) -> str:
        """The first column's, with whose lanes there are and how many have no room."""
        notes = [f"{FOREIGN} not ours"] if any(lane.foreign for lane in self.lanes) else []
        notes += [f"+{self.hidden} more"] if self.hidden else []
        parts = [name.title, *notes]
        while len(" ".join(parts)) >= name.width:
            del parts[0]
        return " ".join(parts)

    def _lane(self, lane: Lane) -> Row:
        cells = lane_cells(lane, self.axis, self.now)
        self.drawn.update(cells)
        return (
            *(column.value(lane, self.now) for column in self.before),
            *_runs(cells, self.glyphs),
            *(column.value(lane, self.now) for column in self.after),
        )

    def _running(self) -> Row:
        """The running width over the lanes' axis."""
        middles = [time for time in self.axis.middles if time <= self.now]
        widths = self.state.widths.at(middles)
        line = self._columns(widths) if self.glyphs.levels else self._digits(widths)
        lead = sum(column.width for column in self.before)
        return (
            Part("running".ljust(lead), "dim"),
            Part(line.ljust(self.axis.columns), "width"),
        )

    def _columns(self, widths: list[int]) -> str:
        """As tall as the share of the slots that is in use."""
        levels, slots = self.glyphs.levels, max(1, self.state.engine.slots)
        heights = (min(len(levels), -(-width * len(levels) // slots)) for width in widths)
        return "".join(levels[height - 1] if height else " " for height in heights)

    def _digits(self, widths: list[int]) -> str:
        """The number where it changes, then a line while it stays."""
        line = ""
        for before, width in pairwise([0, *widths]):
            if width == before:
                line += self.glyphs.bar_left if width else " "
            else:
                line += str(width)[-1] if width < 10 else "+"
        return line

    def _slots(self) -> Row:
        if self.state.by_stopwatch:
            return self._slots_elsewhere()
        parts = [Part("slots  ", "dim")]
        occupancy = self.state.occupancy
        named = 7 * len(occupancy) + 8 <= self.width
        for lane in occupancy:
            busy = lane is not None
            sign = self.glyphs.slot_busy if busy else self.glyphs.slot_free
            parts.append(Part(sign, "decode" if busy else "queued"))
            if named:
                parts.append(Part(f" r{lane.number}".ljust(6) if lane else " free ", "dim"))
        fits = row_cells(parts) <= self.width
        return tuple(parts) if fits else (Part(slots_busy(self.state), "dim"),)

    def _slots_elsewhere(self) -> Row:
        """As another server tells them: how many are busy, not by whom."""
        load, signs = self.state.engine.load, self.glyphs
        if load is None or load.slots is None or load.running is None:
            return (Part(cut(load_in_words(load), self.width).rstrip(), "dim"),)
        parts = [
            Part("slots  ", "dim"),
            Part(signs.slot_busy * load.running, "decode"),
            Part(signs.slot_free * (load.slots - load.running), "queued"),
            Part(f"  {load_in_words(load)}", "dim"),
            Part(f", says {load.source}", "dim"),
        ]
        while row_cells(parts) > self.width:
            parts.pop()
        return tuple(parts)

    def _legend(self) -> Row:
        """What the signs mean; those in no lane are left out first where the room is short."""
        names = LEGEND_BY_STOPWATCH if self.state.by_stopwatch else LEGEND_NAMES
        entries = {
            cell: (Part(getattr(self.glyphs, cell), cell), Part(f" {name}   ", "dim"))
            for cell, name in names.items()
        }
        unseen = [cell for cell in entries if cell not in self.drawn]
        while sum(map(row_cells, entries.values())) > self.width:
            del entries[unseen.pop() if unseen else next(reversed(entries))]
        return tuple(chain.from_iterable(entries.values()))


def _columns(width: int, glyphs: Glyphs, picked: str) -> tuple[list[Column], list[Column]]:
    """What the table shows before and after the lanes, as the width allows."""

    def seconds(title: str, value: Callable[[Lane, float], float | None]) -> Column:
        return Column(title, 7, lambda lane, now: _number(value(lane, now), "{:.1f}", 7, glyphs))

    label = 14 if width < 60 else 16 if width < 70 else 20
    before = [Column("request", label, lambda lane, now: _name(lane, label, picked))]
    if width >= 100:
        before.append(seconds("wait", lambda lane, now: lane.waited(now)))
        before.append(seconds("ttft ", lambda lane, now: lane.ttft))
        before.append(Column("", 2, lambda lane, now: Part("  ")))
    after = [
        Column("end", 7, lambda lane, now: _end(lane, glyphs)),
        Column("tok", 5, lambda lane, now: Part(f"{lane.request.tokens:5}", "text")),
    ]
    if width >= 60:
        after.append(Column("tok/s", 7, lambda lane, now: _number(lane.rate, "{:.1f}", 7, glyphs)))
    return before, after


def _name(lane: Lane, width: int, picked: str) -> Part:
    style = "picked" if lane.id == picked else "text"
    sign = FOREIGN if lane.foreign else " "
    return Part(cut(f"r{lane.number:<2}{sign}{lane.label}", width - 1, "") + " ", style)


def _end(lane: Lane, glyphs: Glyphs) -> Part:
    if lane.request.phase is Phase.QUEUED:
        return Part("   sent", "sent") if lane.by_stopwatch else Part(" queued", "queued")
    return _number(lane.completion_time, "{:.1f}", 7, glyphs)


def _number(value: float | None, form: str, width: int, glyphs: Glyphs) -> Part:
    text = glyphs.dash if value is None else form.format(value)
    return Part(text.rjust(width), "dim" if value is None else "text")


def _runs(cells: list[Cell], glyphs: Glyphs) -> Iterator[Part]:
    for cell, run in groupby(cells):
        count = sum(1 for _ in run)
        sign = " " if cell is Cell.EMPTY else getattr(glyphs, cell)
        yield Part(sign * count, "decode" if cell is Cell.RUNNING else cell)


def _shown(lanes: list[Lane], room: int, picked: str) -> list[Lane]:
    """The lanes worth a row: running first, then who waits, then who left last; in order.

    The picked one always is.
    """
    order = {Phase.PREFILL: 0, Phase.DECODE: 0, Phase.QUEUED: 1, Phase.FINISHED: 2}
    ranked = sorted(lanes, key=lambda lane: -(lane.request.finished or 0.0))
    ranked.sort(key=lambda lane: (lane.id != picked, order[lane.request.phase]))
    return sorted(ranked[: max(0, room)], key=lambda lane: lane.number)


def _idle(state: LiveState, width: int) -> list[Row]:
    text = (
        "Nothing is running. Every request the engine serves gets a line here: how long it waited, "
        "when its prompt was read, when it wrote, and who wrote beside it."
    )
    if state.by_stopwatch:
        text = (
            "Nothing of ours is running. Every request sent from here gets a line: when it was "
            "sent, when its text came, and what came beside it."
        )
    return [(), *wrapped(text, width, "dim", 4, hang=0)]


def slots_busy(state: LiveState) -> str:
    """How busy the engine is, as far as it can be seen."""
    if state.by_stopwatch:
        return load_in_words(state.engine.load)
    occupied = sum(lane is not None for lane in state.occupancy)
    return f"{occupied} of {state.engine.slots} slots busy"


def load_in_words(load: Load | None) -> str:
    """What another server reveals of its load."""
    if load is None:
        return "slots: not visible"
    parts = []
    if load.slots is not None:
        parts.append(f"{load.running} of {load.slots} slots busy")
    elif load.running is not None:
        parts.append(f"{load.running} running")
    if load.waiting is not None:
        parts.append(f"{load.waiting} waiting")
    if load.kv_usage is not None:
        parts.append(f"K/V {load.kv_usage:.0%}")
    return ", ".join(parts if load.slots is not None else [*parts, "slots: not visible"])
