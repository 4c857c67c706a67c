"""Large texts in the composer: each is one unit, a chip, that stands for its exact text. Pure.

In the text a chip is its label between two characters that no keyboard has; the first one says
which paste it is. What somebody else's text has of these characters becomes part of a chip itself,
so nothing but a chip ever looks like one.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct, to_builtins

from dspark_tui.text.counted import counted
from dspark_tui.text.foreign import drawable

COLLAPSE_OVER = 2000
"""Characters that may stand in the text; a line counts as LINE of them at least."""

LINE = 50
MOST_TEXT, MOST_LINE = 200_000, 10_000
"""Characters that can be edited in a text box without a wait after every key."""

KNOWN = 8
"""Pastes that are recognised when a prompt comes back as plain text."""

FIRST, CLOSE = 0x100000, "\U0010fffd"
MOST = 0xFFF0
CHIP = re.compile(f"[{chr(FIRST)}-{chr(FIRST + MOST)}][^{CLOSE}\n]*{CLOSE}")
_RESERVED = re.compile(f"[{chr(FIRST)}-{CLOSE}]")


class Paste(Struct, frozen=True):
    """What a chip stands for. name: where the text is from."""

    number: int
    text: str
    name: str = "pasted"

    @property
    def editable(self) -> bool:
        """May it stand in a text box? Each key there costs a look at all of the caret's line."""
        return len(self.text) <= MOST_TEXT and max(map(len, self.text.split("\n"))) <= MOST_LINE

    @property
    def chip(self) -> str:
        lines = self.text.removesuffix("\n").count("\n") + 1
        label = f"{drawable(self.name)} {self.number}: {counted(lines, 'line')}, {_size(self.text)}"
        return f"{chr(FIRST + self.number)}{_RESERVED.sub('', label)}{CLOSE}"


class Draft(Struct, frozen=True):
    """What stands in a composer, as plain data. caret: row and column in `text`."""

    text: str = ""
    pastes: tuple[Paste, ...] = ()
    caret: tuple[int, int] = (0, 0)

    @property
    def prompt(self) -> str:
        """The text as it would be sent."""
        return _unfolded(self.text, {paste.number: paste for paste in self.pastes})

    def dumps(self) -> str:
        """As text. Asking again costs nothing: drafts are looked at all the time."""
        return _dumped(self)

    @classmethod
    def loads(cls, saved: str) -> Draft:
        """What `dumps` wrote. Raises ValueError for anything else."""
        try:
            fields = json.loads(saved)
            row, column = fields["caret"]
            pastes = tuple(Paste(**paste) for paste in fields["pastes"])
            draft = cls(fields["text"], pastes, (int(row), int(column)))
            _ = draft.prompt  # every chip has its paste
            return draft
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"no saved draft: {error}") from None


class Pastes:
    """The pastes a text's chips stand for, and which texts become chips."""

    def __init__(self, collapse_over: int = COLLAPSE_OVER) -> None:
        """collapse_over: as COLLAPSE_OVER; with 0 no text is large."""
        self._over = collapse_over
        self._held: dict[int, Paste] = {}
        self._known: deque[Paste] = deque(maxlen=KNOWN)

    def add(self, text: str, name: str = "pasted") -> str:
        """The chip of one more paste."""
        paste = Paste(max(self._held, default=0) + 1, text, name)
        self._held[paste.number] = paste
        return paste.chip

    def fold(self, text: str) -> str:
        """The text as it may stand in the composer: what is large becomes a chip.

        Pastes known from earlier become chips of their own, so that what was typed around them can
        be edited again.
        """
        if _RESERVED.search(text):
            return self.add(text)
        if not self._large(text):
            return text
        for known in self._known:
            if self._large(known.text) and known.text in text:
                text = text.replace(known.text, self.add(known.text, known.name), 1)
        return self.add(text) if self._large(CHIP.sub("", text)) else text

    def unfolded(self, text: str) -> str:
        """The text with every chip's own text in its place."""
        return _unfolded(text, self._held)

    def within(self, text: str) -> tuple[Paste, ...]:
        """The pastes whose chips are in the text."""
        numbers = {ord(chip[0][0]) - FIRST for chip in CHIP.finditer(text)}
        return tuple(paste for number, paste in self._held.items() if number in numbers)

    def hold(self, pastes: Iterable[Paste]) -> None:
        """Hold these and no others; the others are still known."""
        known = {paste.text for paste in self._known}
        self._known.extend(paste for paste in self._held.values() if paste.text not in known)
        self._held = {paste.number: paste for paste in pastes}

    def _large(self, text: str) -> bool:
        size = max(len(text), LINE * (text.count("\n") + 1))
        return 0 < self._over < size


@lru_cache(maxsize=4)
def _dumped(draft: Draft) -> str:
    return json.dumps(to_builtins(draft))


def drawn(line: str) -> str:
    """The line with its chips between brackets, each character in its place."""
    return CHIP.sub(lambda chip: f"[{chip[0][1:-1]}]", line)


def _unfolded(text: str, pastes: dict[int, Paste]) -> str:
    return CHIP.sub(lambda chip: pastes[ord(chip[0][0]) - FIRST].text, text)


def _size(text: str) -> str:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"
