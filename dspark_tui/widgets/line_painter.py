"""Lines as the strips Textual shows. What has been painted is kept until its line changes."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from dspark_tui.widgets.lightmark import Mark
from dspark_tui.widgets.lines import Line
from dspark_tui.widgets.mark_styles import MarkStyles

LINES_KEPT = 128


class LinePainter:
    """Paints in one theme. A row is `width` cells and one more, which is the scrollbar's."""

    def __init__(self, styles: MarkStyles) -> None:
        self._marks = styles
        self._strips: dict[int, list[Strip]] = {}
        self._styles: dict[tuple[Mark, tuple[Mark, ...]], Style] = {}

    def forget_from(self, line: int) -> None:
        """Lines from this number on have changed."""
        for number in [number for number in self._strips if number >= line]:
            del self._strips[number]

    def strips(self, number: int, line: Line, first_row: int, width: int) -> list[Strip]:
        """The rows of line `number`, each knowing its place for the mouse's selection."""
        strips = self._strips.get(number)
        if strips is None:
            if len(self._strips) >= LINES_KEPT:
                del self._strips[next(iter(self._strips))]  # the one painted longest ago
            strips = self._strips[number] = self._paint(line, first_row, width)
        return strips

    def style(self, mark: Mark, within: tuple[Mark, ...] = ()) -> Style:
        if (mark, within) not in self._styles:
            self._styles[mark, within] = self._marks.style(mark, within)
        return self._styles[mark, within]

    def chrome(self, role: str) -> Style:
        """The style of a sign that is no text."""
        return self._marks.base + self._marks.role(role)

    def _paint(self, line: Line, first_row: int, width: int) -> list[Strip]:
        runs, filler, blank = line.runs, self.style(line.filler), self.style(Mark.TEXT)
        strips = []
        for number, (start, end) in enumerate(line.rows):
            segments = [Segment(line.hang, self.style(Mark.SIGN))] if number and line.hang else []
            for run in runs:
                text = line.drawn[max(run.start, start) : min(run.end, end)]
                if text:
                    segments.append(Segment(text, self.style(run.mark, run.within)))
            strip = Strip(segments).adjust_cell_length(width, filler)
            strip = strip.adjust_cell_length(width + 1, blank)
            strips.append(strip.apply_offsets(0, first_row + number))
        return strips


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
