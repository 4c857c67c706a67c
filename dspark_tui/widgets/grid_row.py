"""A row of an experiment's grid, before any of it is painted. Pure."""

from __future__ import annotations

from msgspec import Struct
from rich.cells import cell_len

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.parts import Part
from dspark_tui.experiments.board import Entry, State
from dspark_tui.experiments.experiment import Inputs
from dspark_tui.text.foreign import drawable
from dspark_tui.text.wrap import cut

STYLES = (
    *("text", "dim", "rule", "heading", "waiting", "running", "answered", "refused"),
    *("passed", "failed", "rating"),
)

LEAST_COLUMN = 24
"""Cells a column needs to say anything."""

MARKS = 4
"""With more assertions than these, a cell counts those that hold."""

WORDS_READ = 200
"""Characters of an answer that are looked at for its first words."""


class Plan(Struct, frozen=True):
    """How a grid's width is shared out. label: cells for the inputs. shown: how many columns fit,
    each `column` cells wide; the last takes what is left.
    """

    label: int
    column: int
    shown: int

    @classmethod
    def of(cls, width: int, labels: int, columns: int) -> Plan:
        """labels: cells the longest of them takes."""
        label = max(1, min(labels + 1, width // 4))
        shown = max(1, min(columns, (width - label) // LEAST_COLUMN))
        return cls(label, max(3, (width - label) // shown), shown)


def input_label(row: int, inputs: Inputs) -> str:
    """A row's number and its values, on one line."""
    values = ", ".join(value[:WORDS_READ] for value in inputs.values())
    return drawable(f"{row + 1} {' '.join(values.split())}".rstrip())


def cell_parts(entry: Entry, width: int, signs: Glyphs, wanted: bool) -> tuple[Part, ...]:
    """A cell on `width` cells: state, first words, tokens, assertions and rating.

    wanted: is it what the filter asks for? If not it is dim.
    """
    tail = _tail(entry, signs)
    room = width - 3 - sum(cell_len(part.text) for part in tail)
    if room < 1:
        tail, room = (), width - 3
    words = " ".join((entry.problem or entry.text[:WORDS_READ]).split())
    style = "refused" if entry.state is State.REFUSED else "text"
    parts = (
        Part(f"{_state_sign(entry, signs)} ", entry.state),
        Part(cut(words, room), style),
        *tail,
        Part(" "),
    )
    return parts if wanted else tuple(Part(part.text, "dim") for part in parts)


def _state_sign(entry: Entry, signs: Glyphs) -> str:
    if entry.ending is not None:
        return entry.ending.sign(signs)
    return signs.queued if entry.state is State.WAITING else signs.running


def _tail(entry: Entry, signs: Glyphs) -> tuple[Part, ...]:
    """What stands at a cell's right edge once it is answered."""
    tail = []
    if entry.tokens is not None:
        tail.append(Part(f" {entry.tokens:>4}", "dim"))
    verdicts = entry.verdicts
    if 0 < len(verdicts) <= MARKS:
        tail.append(Part(" "))
        tail += [
            Part(signs.done, "passed") if holds else Part(signs.stopped, "failed")
            for holds in verdicts
        ]
    elif verdicts:
        style = "passed" if all(verdicts) else "failed"
        tail.append(Part(f" {sum(verdicts)}/{len(verdicts)}", style))
    if entry.rating is not None:
        tail.append(Part(f" *{entry.rating}", "rating"))
    return tuple(tail)
