"""Text that somebody else wrote, made harmless: no terminal takes any of it for a command. Pure.

Terminals disagree about the width of joined emoji, variation selectors, skin tones and flags, and a
row drawn wider than we counted pushes a pane's border out of line. So such clusters are drawn as
their parts, which all terminals measure alike; the text itself is kept as it came.
"""

from __future__ import annotations

import unicodedata

TAB = "    "
UNKNOWN = "␦"


def harmless(text: str) -> str:
    """Text that may be edited and sent: only control characters differ, joined emoji stay whole.

    Line ends become "\\n", tabs stay.
    """
    if text.isprintable():
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_HARMLESS)


def drawable(line: str) -> str:
    """One line as it is drawn: no control or escape codes, widths all terminals agree on."""
    if line.isascii() and line.isprintable():
        return line
    return line.translate(_DRAWN)


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: JSON can carry half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class _Table(dict[int, str]):
    """A `str.translate` table, filled as characters turn up."""

    def __missing__(self, code: int) -> str:
        text = self[code] = self.made(code)
        return text

    def made(self, code: int) -> str:
        """What is shown for a character: its picture if it controls terminals."""
        if code < 0x20:
            return chr(0x2400 + code)
        if code == 0x7F:
            return "␡"
        return UNKNOWN if unicodedata.category(chr(code)) in ("Cc", "Cs") else chr(code)


class _Drawn(_Table):
    def made(self, code: int) -> str:
        if code == ord("\t"):
            return TAB
        if 0x1F1E6 <= code <= 0x1F1FF:  # half a flag: its letter
            return chr(ord("A") + code - 0x1F1E6)
        if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x1F3FB <= code <= 0x1F3FF:
            return ""
        match unicodedata.category(chr(code)):
            case "Cf":  # joiners, direction marks, tags: no cell of their own everywhere, or ever
                return ""
            case "Zl" | "Zp":
                return " "
        return super().made(code)


_HARMLESS = _Table({ord("\n"): "\n", ord("\t"): "\t"})
_DRAWN = _Drawn()
