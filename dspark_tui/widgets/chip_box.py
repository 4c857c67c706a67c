"""A text box in which a large paste is one unit, drawn as a label and edited as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from rich.text import Text
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from dspark_tui.conversation.pastes import CHIP, Draft, Paste, Pastes, drawn
from dspark_tui.text.foreign import harmless
from dspark_tui.widgets.fields import TextBox


class ChipBox(TextBox):
    """`text` holds chips, `prompt` what they stand for, `draft` both."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chip-box--chip"}

    def __init__(self, pastes: Pastes, **options: Any) -> None:
        """options: TextArea's."""
        self.pastes = pastes
        super().__init__(**options)

    @property
    def prompt(self) -> str:
        """The text as it is sent."""
        return self.pastes.unfolded(self.text)

    @property
    def selected_text(self) -> str:
        return self.pastes.unfolded(super().selected_text)

    @property
    def draft(self) -> Draft:
        text = self.text
        return Draft(text, self.pastes.within(text), self.cursor_location)

    def restore(self, draft: Draft) -> None:
        """Replace what stands here; nothing before it can be undone."""
        self.pastes.hold(draft.pastes)
        self.load_text(draft.text)
        self.move_cursor(draft.caret)

    def put(self, text: str) -> None:
        """Replace what stands here by a text from elsewhere; the caret moves to its end."""
        self.pastes.hold(())
        self.load_text(harmless(self.pastes.fold(text)))
        self.move_cursor(self.document.end)

    def insert_chip(self, text: str, name: str, start: Location, end: Location) -> None:
        """Put a chip where a range of the text was."""
        super().edit(Edit(self.pastes.add(text, name), start, end, False))

    def expand_chip(self) -> Paste | None:
        """Put the text of the chip at the caret, or of the last one, in the chip's place.

        Not one that is too long to be edited. Returns its paste, None where there is no chip.
        """
        caret = self.cursor_location
        chips = list(self._chips())
        if not chips:
            return None
        start, end = next((chip for chip in chips if caret in chip), chips[-1])
        (paste,) = self.pastes.within(self.get_text_range(start, end))
        if paste.editable:
            super().edit(Edit(harmless(paste.text), start, end, False))
        return paste

    def edit(self, edit: Edit) -> EditResult:
        """Every change: what is large becomes a chip, and a chip changes as a whole.

        What the result says was replaced is for the clipboard: the chips' own text.
        """
        top, bottom = self._outside(edit.top, -1), self._outside(edit.bottom, +1)
        text = self.pastes.fold(edit.text)
        result = super().edit(Edit(text, top, bottom, edit.maintain_selection_offset))
        return EditResult(result.end_location, self.pastes.unfolded(result.replaced_text))

    def validate_selection(self, selection: Selection) -> Selection:
        """The caret passes a chip in one step."""
        caret = self.selection.end
        start, end = (
            self._outside(location, -1 if location < caret else +1) for location in selection
        )
        return Selection(start, end)

    def get_line(self, line_index: int) -> Text:
        line = self.document.get_line(line_index)
        shown = Text(drawn(line), end="", no_wrap=True)
        for chip in CHIP.finditer(line):
            shown.stylize(self.get_component_rich_style("chip-box--chip"), *chip.span())
        return shown

    def _chips(self) -> Iterator[tuple[Location, Location]]:
        for row, line in enumerate(self.document.lines):
            for chip in CHIP.finditer(line):
                yield (row, chip.start()), (row, chip.end())

    def _outside(self, location: Location, side: int) -> Location:
        """The location, or a chip's end on that side if it is within one."""
        row, column = location
        line = self.document.get_line(row) if row < self.document.line_count else ""
        chip = next((c for c in CHIP.finditer(line) if c.start() < column < c.end()), None)
        return location if chip is None else (row, chip.start() if side < 0 else chip.end())
