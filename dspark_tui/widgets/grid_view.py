"""An experiment's cells, drawn line by line: only what is in sight costs anything."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dspark_tui.appearance.glyphs import DEFAULT, Glyphs
from dspark_tui.experiments.board import Board, Entry, View
from dspark_tui.text.wrap import cut
from dspark_tui.widgets.grid_row import STYLES, Plan, cell_parts, input_label

LABELS_READ = 200
"""Rows whose labels decide how wide all labels are."""


class Piece(NamedTuple):
    """Text in one style. cursor: it is in the cursor's cell."""

    text: str
    style: str
    cursor: bool = False


class GridView(ScrollView, can_focus=False):
    """Draws a board as a view has it, with a cursor on one cell. A column doesn't scroll in part.

    rows: of the board, as they are shown. row, column: of the cursor, on the board.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"grid-view--{style}" for style in STYLES} | {
        "grid-view--cursor"
    }
    DEFAULT_CSS = """
    GridView {
        height: 1fr;
        padding: 0 1;
        border: round $role-pane-focus;
        border-title-color: $foreground;
        border-subtitle-color: $role-dim;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .grid-view--dim { color: $role-dim; }
        & > .grid-view--rule { color: $role-pane-blur; }
        & > .grid-view--heading { color: $role-strong; text-style: bold; }
        & > .grid-view--waiting { color: $role-lane-queued; }
        & > .grid-view--running { color: $role-lane-decode; }
        & > .grid-view--answered { color: $role-lane-done; }
        & > .grid-view--refused { color: $role-lane-failed; }
        & > .grid-view--passed { color: $role-lane-done; }
        & > .grid-view--failed { color: $role-lane-failed; text-style: bold; }
        & > .grid-view--rating { color: $role-strong; text-style: bold; }
        & > .grid-view--cursor { background: $primary 30%; text-style: bold; }
        &:nocolor > .grid-view--cursor { text-style: reverse; }
    }
    """

    class Opened(Message):
        """The cell under the cursor was clicked."""

    class Moved(Message):
        """The cursor is on another cell, or what is shown changed around it."""

    def __init__(self, board: Board, glyphs: Glyphs = DEFAULT) -> None:
        super().__init__()
        self.board, self.view, self._glyphs = board, View(), glyphs
        self.rows = board.rows(self.view)
        self.row = self.column = 0
        self._left = 0  # the first column in sight
        self._plan = Plan(1, 3, 1)
        self._drawn: dict[int, tuple[Piece, ...]] = {}  # what each line shows
        labels = (input_label(n, row) for n, row in enumerate(board.inputs[:LABELS_READ]))
        self._label_cells = max(map(cell_len, labels))

    @property
    def entry(self) -> Entry | None:
        """The cell under the cursor; None where no row is shown."""
        return self.board.entry(self.row, self.column) if self.rows else None

    def show(self, view: View | None = None) -> None:
        """Take over what happened on the board, or another view of it.

        The cursor stays on its row; where that is left out, on the one that took its place.
        """
        place = self.rows.index(self.row) if self.rows else 0
        self.view = view or self.view
        self.rows = self.board.rows(self.view)
        if self.rows and self.row not in self.rows:
            self.row = self.rows[min(place, len(self.rows) - 1)]
        self._settle()

    def move_to(self, row: int, column: int) -> None:
        """Put the cursor on a cell of the board that is shown, and have it in sight."""
        self.row, self.column = row, max(0, min(column, len(self.board.columns) - 1))
        self._settle(follow=True)

    def move(self, down: int, right: int) -> None:
        """Move the cursor by that many shown rows and columns, as far as there are any."""
        if self.rows:
            place = max(0, min(self.rows.index(self.row) + down, len(self.rows) - 1))
            self.move_to(self.rows[place], self.column + right)

    @property
    def page(self) -> int:
        """Rows in sight."""
        return max(1, self.size.height - 1)

    @property
    def columns_in_sight(self) -> str:
        """Which they are, in words; "" if that is all of them."""
        columns, count = self._columns(), len(self.board.columns)
        if len(columns) == count:
            return ""
        first, last = columns[0] + 1, columns[-1] + 1
        return (
            f"column {first} of {count}" if first == last else f"columns {first}-{last} of {count}"
        )

    def on_resize(self) -> None:
        self._settle(follow=True)

    def on_click(self, event: events.Click) -> None:
        """A click goes to a cell; one on the cursor opens it."""
        offset = event.get_content_offset(self)
        place = round(self.scroll_y) + offset.y - 1 if offset is not None else -1
        if offset is None or offset.y < 1 or place >= len(self.rows):
            return
        here = (self.row, self.column)
        column = self._left + max(0, offset.x - self._plan.label) // self._plan.column
        self.move_to(self.rows[place], column)
        if (self.row, self.column) == here:
            self.post_message(self.Opened())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        pieces = self._drawn[y] = self._line(y)
        segments = [Segment(piece.text, self._style(piece)) for piece in pieces]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    # ---- drawing

    def _settle(self, follow: bool = False) -> None:
        """Share out the room anew and have the lines painted that read differently.

        follow: bring the cursor into sight.
        """
        width, height = self.size
        if not width or not height:
            return
        self._plan = Plan.of(width, self._label_cells, len(self.board.columns))
        most_left = len(self.board.columns) - self._plan.shown
        nearest = max(self._left, self.column - self._plan.shown + 1)
        self._left = min(nearest, self.column, most_left)
        self.virtual_size = Size(width, len(self.rows) + 1)
        if follow and self.rows:
            self._reveal(self.rows.index(self.row))
        for y in range(height):
            if self._drawn.get(y) != self._line(y):
                self.refresh(Region(0, y, width, 1))
        self.post_message(self.Moved())

    def _reveal(self, place: int) -> None:
        top = min(round(self.scroll_y), place)
        self.scroll_to(y=max(top, place - self.page + 1), animate=False, immediate=True)

    def _line(self, y: int) -> tuple[Piece, ...]:
        """A line's label, then a rule and a cell for each column in sight."""
        if y == 0:
            return self._heading()
        place = round(self.scroll_y) + y - 1
        if place >= len(self.rows):
            return (Piece("nothing is like that", "dim"),) if y == 1 else ()
        row = self.rows[place]
        label = cut(input_label(row, self.board.inputs[row]), self._plan.label - 1)
        pieces = [Piece(f"{label} ", "dim")]
        for column in self._columns():
            entry, cursor = self.board.entry(row, column), (row, column) == (self.row, self.column)
            parts = cell_parts(
                entry, self._plan.column - 1, self._glyphs, wanted=self.view.wants(entry)
            )
            pieces += (self._rule, *(Piece(*part, cursor) for part in parts))
        return tuple(pieces)

    def _heading(self) -> tuple[Piece, ...]:
        names = " ".join(self.board.experiment.variables)
        pieces = [Piece(cut(names, self._plan.label - 1) + " ", "heading")]
        for column in self._columns():
            title = cut(self.board.columns[column], self._plan.column - 2)
            pieces += (self._rule, Piece(f"{title} ", "heading"))
        return tuple(pieces)

    def _columns(self) -> range:
        return range(self._left, min(self._left + self._plan.shown, len(self.board.columns)))

    @property
    def _rule(self) -> Piece:
        return Piece(self._glyphs.rule, "rule")

    def _style(self, piece: Piece) -> Style:
        style = self.get_component_rich_style(f"grid-view--{piece.style}")
        if piece.cursor:
            under = self.get_component_rich_style("grid-view--cursor")
            style += Style(bgcolor=under.bgcolor, bold=under.bold, reverse=under.reverse)
        return style
