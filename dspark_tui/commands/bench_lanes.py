"""A round of timed requests as lanes of text, the same as in the batch panel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace
from rich.text import Text

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.cell import Cell
from dspark_tui.batch.lanes import Axis, Lane, lane_cells
from engine.events import Phase, RequestState
from engine.proof.probes import Round
from engine.proof.traffic import Record
from engine.types import FinishReason

STYLES = {
    Cell.QUEUED: "dim",
    Cell.DECODE: "green",
    Cell.RUNNING: "green",
    Cell.LENGTH: "green",
    Cell.FAILED: "red",
}


def lane_rows(round_: Round, now: float, columns: int, glyphs: Glyphs) -> Iterator[Text]:
    """A header with the time axis, then a row for each request that was sent."""
    lanes = [
        _lane(n, record) for n, record in enumerate(round_.records, 1) if record.submit is not None
    ]
    start = min((lane.request.queued for lane in lanes), default=now)
    end = max((lane.request.finished or now for lane in lanes), default=now)
    axis = Axis.fit(start, end, columns)
    if end > start and all(lane.request.finished for lane in lanes):
        axis = replace(axis, seconds=end - start)  # nothing grows any more: use the whole width
    line = [" "] * axis.columns
    for column, label in axis.ticks:
        line[column : column + len(label)] = label
    yield Text("      " + "".join(line)[: axis.columns] + "     end    tok", style="dim")
    for lane in lanes:
        yield _row(lane, axis, now, glyphs)


def _row(lane: Lane, axis: Axis, now: float, glyphs: Glyphs) -> Text:
    row = Text(f"  r{lane.number:<3}")
    for cell, run in groupby(lane_cells(lane, axis, now)):
        sign = " " if cell is Cell.EMPTY else getattr(glyphs, cell)
        row.append(sign * sum(1 for _ in run), style=STYLES.get(cell, ""))
    end = lane.completion_time
    row.append(f"  {end:6.2f}" if end is not None else f"  {glyphs.dash:>6}")
    return row.append(f"  {lane.request.tokens:5}")


def _lane(number: int, record: Record) -> Lane:
    """What the engine's own state of this request would be, as far as it shows from outside."""
    latest = record.arrivals[-1] if record.arrivals else record.submit
    state = RequestState(
        request=str(number),
        source=record.ask.source,
        phase=Phase.DECODE if record.arrivals else Phase.QUEUED,
        prompt_tokens=record.prompt_tokens or 0,
        max_tokens=record.ask.max_tokens,
        queued=record.submit or 0.0,
        admitted=record.first,
        first_token=record.first,
        last_token=latest,
        tokens=record.tokens,
        finished=latest if record.error else record.end,
        reason=_reason(record),
    )
    return Lane(number, state)


def _reason(record: Record) -> FinishReason | None:
    if record.error:
        return FinishReason.ERROR
    return None if record.end is None else FinishReason.LENGTH
