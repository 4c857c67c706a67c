"""Which of an answer's code blocks to copy: a digit, or the arrows and Enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList

from dspark_tui.screens.dialog import Dialog
from dspark_tui.text.code_blocks import CodeBlock
from dspark_tui.text.counted import counted
from dspark_tui.text.foreign import drawable


class PickCode(Dialog[CodeBlock | None]):
    """Gives the chosen block, or None when left."""

    BINDINGS: ClassVar = [
        Binding("escape,q,ctrl+c", "dismiss(None)"),
        *(Binding(str(digit), f"pick({digit})") for digit in range(1, 10)),
    ]
    KEY_HELP: ClassVar = (
        ("1–9", "copy the block of that number"),
        ("Enter", "copy the one that is highlighted"),
        ("Up Down", "highlight another"),
        ("Esc q ^C", "leave; nothing is copied"),
    )

    def __init__(self, blocks: Sequence[CodeBlock]) -> None:
        super().__init__()
        self._blocks = blocks

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = "copy which block"
            sheet.border_subtitle = "digit or Enter copies   Esc leaves"
            width = max(len(_kind(block)) for block in self._blocks)
            entries = (_entry(n, block, width) for n, block in enumerate(self._blocks, 1))
            yield OptionList(*entries, compact=True)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._blocks[event.option_index])

    def action_pick(self, number: int) -> None:
        if number <= len(self._blocks):
            self.dismiss(self._blocks[number - 1])


def _entry(number: int, block: CodeBlock, width: int) -> Content:
    """width: of the longest `_kind`."""
    first = next(line.strip() for line in block.text.split("\n") if line.strip())
    kind = f"{_kind(block):<{width}}"
    return Content.assemble((f"{number}", "bold"), f"  {kind}   {drawable(first)}")


def _kind(block: CodeBlock) -> str:
    lines = block.text.count("\n") + 1
    return drawable(f"{block.language or 'text'}, {counted(lines, 'line')}")
