"""What Textual draws by itself, in 7-bit signs."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_LOOKALIKES = {
    "…": ".",
    "–": "-",
    "▁": "_",
    **dict.fromkeys("▂▃▄▅▆▇", " "),  # ends of scrollbars: their background says enough
    **dict.fromkeys("─━═▔▀", "-"),
    **dict.fromkeys("│┃║▌▐▎▊█", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘┏┓┗┛╔╗╚╝", "+"),
}
_TABLE = str.maketrans(_LOOKALIKES)


class SevenBit(LineFilter):
    """Puts a plain sign of the same width for each that a widget's border, scrollbar or cut uses.

    The glyphs of our own have a 7-bit set; these can't be chosen.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text if text.isascii() else text.translate(_TABLE), style, control)
            for text, style, control in segments
        ]
