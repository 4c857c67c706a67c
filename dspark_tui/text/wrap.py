"""Text wrapped and cut by terminal cells. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from rich.cells import cell_len, set_cell_size, split_graphemes

from dspark_tui.text.foreign import drawable

_VALUE = re.compile(r"\S+(?: \S+)*")
_WORD = re.compile(r"\S+\s*|\s+")
_ONE_CELL_EACH = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u0384-\u0482\u2010-\u2027\u2030-\u205e]*"
)
"""Text in European scripts with their punctuation: as many cells as characters."""

_NEVER_FIRST = frozenset("、。，．！？；：」』）】》〉〕・ー々…")
"""Signs that East Asian text doesn't start a row with."""


class _Atom(Struct, frozen=True):
    """Text that stays on one row: `text[start:end]`, then blanks up to `after`."""

    start: int
    end: int
    after: int
    cells: int


def wrap(text: str, width: int, hang: int = 0) -> list[tuple[int, int]]:
    """Slices of `text` that fit rows of `width` cells, at least one; later rows are `hang` shorter.

    text: drawable. Blanks at a row's end are left out. East Asian text breaks between characters.
    """
    width = max(1, width)
    hang = fitting_hang(hang, width)
    plain = _ONE_CELL_EACH.fullmatch(text) is not None
    return (_by_blanks(text, width, hang) if plain else None) or _by_atoms(text, width, hang)


def wrap_values(text: str, width: int, hang: int = 0) -> list[tuple[int, int]]:
    """The same for values that two blanks or more set apart: rows end only between two of them.

    Where one is longer than a row, all are wrapped like any text.
    """
    rows: list[tuple[int, int]] = []
    room = width
    for start, end in (value.span() for value in _VALUE.finditer(text)):
        if rows and cell_len(text[rows[-1][0] : end]) <= room:
            rows[-1] = rows[-1][0], end
            continue
        room = width - fitting_hang(hang, width) if rows else width
        if cell_len(text[start:end]) > room:
            return wrap(text, width, hang)
        rows.append((start, end))
    return rows or wrap(text, width, hang)


def fitting_hang(hang: int, width: int) -> int:
    """The indent that later rows really get: none where it would leave them too little room."""
    return hang if hang < width // 2 else 0


def _by_blanks(text: str, width: int, hang: int) -> list[tuple[int, int]] | None:
    """The same where characters take a cell each: a search for each row, not a step for each word.

    None if a word is longer than a row, or blanks are.
    """
    rows: list[tuple[int, int]] = []
    start, end, room = 0, len(text.rstrip()), width
    while end - start > room:
        after = text.rfind(" ", start, start + room + 1)
        stop = start + len(text[start : max(start, after)].rstrip())
        if stop == start:
            return None
        rows.append((start, stop))
        start = after + 1
        while text[start] == " ":
            start += 1
        room = width - hang
        if text.find(" ", start, start + room + 1) < 0 and end - start > room:
            return None
    rows.append((start, end))
    return rows


def _by_atoms(text: str, width: int, hang: int) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    start = end = used = 0
    for atom in _atoms(text, width - hang):
        room = width - hang if rows else width
        if used + atom.cells > room:
            if end > start:
                rows.append((start, end))
            start, used = atom.start, 0
        used += atom.cells + atom.after - atom.end
        end = atom.end
    rows.append((start, end))
    return rows


def cut(text: str, width: int, ellipsis: str = "~") -> str:
    """`text` made drawable, cut and padded to exactly `width` cells."""
    text = drawable(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - cell_len(ellipsis)) + ellipsis if width > 0 else ""


def _atoms(text: str, room: int) -> Iterator[_Atom]:
    for match in _WORD.finditer(text):
        word = match.group().rstrip()
        start, end = match.start(), match.start() + len(word)
        cells = cell_len(word)
        if cells <= room and cells == len(word):
            yield _Atom(start, end, match.end(), cells)
        else:
            *parts, last = _parts(word, room)
            for part_start, part_end, part_cells in parts:
                yield _Atom(start + part_start, start + part_end, start + part_end, part_cells)
            yield _Atom(start + last[0], end, match.end(), last[2])


def _parts(word: str, room: int) -> list[tuple[int, int, int]]:
    """(start, end, cells) of the pieces of a word that may stand on rows of their own."""
    if word.isascii():
        ends = range(room, len(word) + room, room)
        return [(end - room, min(end, len(word)), min(end, len(word)) - end + room) for end in ends]
    parts: list[tuple[int, int, int]] = []
    joinable = False
    for start, end, cells in split_graphemes(word)[0]:
        joins = (joinable and cells < 2) or word[start] in _NEVER_FIRST
        if parts and joins and parts[-1][2] + cells <= room:
            parts[-1] = (parts[-1][0], end, parts[-1][2] + cells)
        else:
            parts.append((start, end, cells))
        joinable = cells < 2
    return parts
