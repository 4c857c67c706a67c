"""Lines as the strips Textual shows. What has been painted is kept until its line changes."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice, takewhile

from msgspec import Struct, field
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from dspark_tui.text.lightmark import Mark, Run
from dspark_tui.text.lines import Line
from dspark_tui.widgets.mark_styles import MarkStyles

LINES_KEPT = 128


class PaintedLine(Struct):
    """A line's meaning, and those of its rows that were in sight, since a line may be huge."""

    runs: list[Run]
    filler: Mark
    rows: dict[int, Strip] = field(default_factory=dict)


class LinePainter:
    """Paints in one theme. A row is `width` cells and one more, which is the scrollbar's."""

    def __init__(self, styles: MarkStyles) -> None:
        self._marks = styles
        self._painted: dict[int, PaintedLine] = {}
        self._styles: dict[tuple[Mark, tuple[Mark, ...]], Style] = {}

    def forget_from(self, line: int) -> None:
        """Lines from this number on have changed."""
        for number in [number for number in self._painted if number >= line]:
            del self._painted[number]

    def strip(self, number: int, line: Line, part: int, row: int, width: int) -> Strip:
        """Row `part` of line `number`; it knows its place, `row`, for the mouse's selection."""
        painted = self._painted.get(number)
        if painted is None:
            if len(self._painted) >= LINES_KEPT:
                del self._painted[next(iter(self._painted))]  # the one painted longest ago
            painted = self._painted[number] = PaintedLine(line.runs, line.filler)
        if part not in painted.rows:
            strip = self._paint(line, painted, part, width)
            painted.rows[part] = strip.apply_offsets(0, row)
        return painted.rows[part]

    def style(self, mark: Mark, within: tuple[Mark, ...] = ()) -> Style:
        if (mark, within) not in self._styles:
            self._styles[mark, within] = self._marks.style(mark, within)
        return self._styles[mark, within]

    def chrome(self, role: str) -> Style:
        """The style of a sign that is no text."""
        return self._marks.base + self._marks.role(role)

    def _paint(self, line: Line, painted: PaintedLine, part: int, width: int) -> Strip:
        start, end = line.rows[part]
        segments = [Segment(line.hang, self.style(Mark.SIGN))] if part and line.hang else []
        first = bisect_right(painted.runs, start, key=lambda run: run.end)
        for run in takewhile(lambda run: run.start < end, islice(painted.runs, first, None)):
            text = line.drawn[max(run.start, start) : min(run.end, end)]
            segments.append(Segment(text, self.style(run.mark, run.within)))
        strip = Strip(segments).adjust_cell_length(width, self.style(painted.filler))
        return strip.adjust_cell_length(width + 1, self.style(Mark.TEXT))


def highlighted(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """The strip with characters from `start` to `end` selected; -1 is the end of the row."""
    position, segments = 0, []
    for text, own, _ in strip:
        first = max(0, start - position)
        last = len(text) if end == -1 else max(first, end - position)
        segments.append(Segment(text[:first], own))
        segments.append(Segment(text[first:last], (own or Style()) + style))
        segments.append(Segment(text[last:], own))
        position += len(text)
    return Strip([segment for segment in segments if segment.text])
