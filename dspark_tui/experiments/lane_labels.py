"""Labels for an experiment's lanes: only what tells the requests apart, in few columns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, takewhile

from rich.cells import cell_len, set_cell_size

ROOM = 15
"""Columns a lane has for its label, where the panel is not narrow."""


def lane_labels(*aspects: Sequence[str]) -> Iterator[str]:
    """A label for each combination, in the order of `itertools.product`.

    aspects: the names of the things that are combined. What is the same everywhere is left out;
    what changes from one request to the next stands first.
    """
    lines = [[" ".join(name.split()) for name in names] for names in aspects]
    longest = [max(map(cell_len, names)) if len(set(names)) > 1 else 0 for names in lines]
    room = ROOM - sum(map(bool, longest)) + 1  # for the signs between them
    share = max(w for w in range(1, ROOM + 1) if sum(min(w, most) for most in longest) <= room)
    short = [
        _told_apart(names, share) if most else [""] * len(names)
        for names, most in zip(lines, longest, strict=True)
    ]
    for combined in product(*short):
        yield "/".join(filter(None, reversed(combined)))


def _told_apart(names: Sequence[str], cells: int) -> list[str]:
    """The names in so many cells: what they begin with, else from the first word that differs on,
    else with their numbers."""
    columns = zip(*names, strict=False)
    alike = "".join(signs[0] for signs in takewhile(lambda signs: len(set(signs)) == 1, columns))
    word = alike.rfind(" ") + 1
    for start in (0, word):
        cut = [_cut(name[start:], cells) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return [_cut(f"{number} {name[word:]}", cells) for number, name in enumerate(names, 1)]


def _cut(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else set_cell_size(text, cells).rstrip()
