"""A diff as rows of styled text, two columns or one. Pure.

What differs stands in signs of its own, so that it can be told without colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import zip_longest

from msgspec import Struct, field

from dspark_tui.batch.parts import Part, Row, row_cells
from dspark_tui.comparison.compare import Diff, Hunk
from dspark_tui.text.foreign import drawable
from dspark_tui.text.wrap import wrap

SIDE_BY_SIDE_FROM = 80
"""Columns of text; in fewer, both answers go through one column."""


class Mark(StrEnum):
    """What a part of a row is."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    RULE = "rule"


SIGNS = {Mark.REMOVED: ("[-", "-]"), Mark.ADDED: ("{+", "+}")}

Line = list[Part]


class _Section(Struct):
    """Lines up to a line end that both texts have: there, two columns are level again."""

    left: list[Line] = field(default_factory=lambda: [[]])
    right: list[Line] = field(default_factory=lambda: [[]])


def side_by_side(diff: Diff, width: int, rule: str) -> list[Row]:
    """Rows of `width` cells. rule: the sign between the columns."""
    column = (width - 3) // 2
    rows: list[Row] = []
    for section in _sections(diff):
        left, right = _wrapped(section.left, column), _wrapped(section.right, column)
        for one, other in zip_longest(left, right, fillvalue=()):
            gap = Part(" " * (column - row_cells(one)), Mark.SAME)
            rows.append((*one, gap, Part(f" {rule} ", Mark.RULE), *other))
    return rows


def unified(diff: Diff, width: int) -> list[Row]:
    """Rows of at most `width` cells: what was removed stands before what was added."""
    lines: list[Line] = [[]]
    for hunk in diff.hunks:
        if hunk.same:
            _append(lines, max(hunk.left, hunk.right, key=len), Mark.SAME)  # the blanks may differ
        else:
            _append(lines, hunk.left, Mark.REMOVED)
            _append(lines, hunk.right, Mark.ADDED)
    return _wrapped(lines, width)


def changed(row: Row) -> bool:
    return any(part.style in SIGNS for part in row)


def _sections(diff: Diff) -> Iterator[_Section]:
    section = _Section()
    for hunk in diff.hunks:
        if not hunk.same:
            _append(section.left, hunk.left, Mark.REMOVED)
            _append(section.right, hunk.right, Mark.ADDED)
            continue
        for number, (left, right) in enumerate(_common_lines(hunk)):
            if number:
                yield section
                section = _Section()
            _append(section.left, left, Mark.SAME)
            _append(section.right, right, Mark.SAME)
    yield section


def _common_lines(hunk: Hunk) -> Iterator[tuple[str, str]]:
    return zip(hunk.left.split("\n"), hunk.right.split("\n"), strict=True)


def _append(lines: list[Line], text: str, mark: Mark) -> None:
    """Continue the last line. Blanks at either end of a change are outside its signs."""
    before, after = SIGNS.get(mark, ("", ""))
    for number, line in enumerate(text.split("\n")):
        if number:
            lines.append([])
        core = line.strip()
        if core:
            start = line.index(core)
            lines[-1].append(Part(drawable(line[:start]), Mark.SAME))
            lines[-1].append(Part(f"{before}{drawable(core)}{after}", mark))
            line = line[start + len(core) :]
        lines[-1].append(Part(drawable(line), Mark.SAME))


def _wrapped(lines: list[Line], width: int) -> list[Row]:
    return [row for line in lines for row in _rows(line, width)]


def _rows(line: Line, width: int) -> Iterator[Row]:
    text = "".join(part.text for part in line)
    for start, end in wrap(text, width):
        position = 0
        row: list[Part] = []
        for part in line:
            piece = part.text[max(0, start - position) : max(0, end - position)]
            position += len(part.text)
            if piece:
                row.append(Part(piece, part.style))
        yield tuple(row)
