"""Markdown's inline text: links, emphasis and code as pieces with a meaning. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from dspark_tui.text.foreign import drawable
from dspark_tui.text.lightmark import Mark, Run

if TYPE_CHECKING:
    from markdown_it.token import Token

_MEANING = {
    "strong_open": Mark.BOLD,
    "em_open": Mark.EMPHASIS,
    "s_open": Mark.STRIKE,
    "link_open": Mark.LINK,
}


class Span(Struct, frozen=True):
    """A piece of drawable text. within: what else it is, outermost first."""

    text: str
    mark: Mark = Mark.TEXT
    within: tuple[Mark, ...] = ()


def text_of(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans)


def runs_of(spans: Iterable[Span], start: int = 0) -> list[Run]:
    """Where the spans are once their texts are joined, the first one at `start`."""
    runs = []
    for span in spans:
        end = start + len(span.text)
        if end > start:
            runs.append(Run(start, end, span.mark, span.within))
        start = end
    return runs


def inline_lines(tokens: Sequence[Token], *base: Mark) -> list[list[Span]]:
    """Inline tokens as the lines they were written in. base: what all of it is.

    Models break lines where they mean it, in verse and addresses: their line ends are kept. A link
    is followed by its address, so that nobody has to trust its text.
    """
    lines: list[list[Span]] = [[]]
    marks = list(base)
    links: list[tuple[str, list[str]]] = []  # addresses of open links, and what they show
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            lines.append([])
        elif token.markup in ("_", "__"):  # a name far more often than an emphasis: `__init__`
            lines[-1].append(_span(token.markup, marks))
        elif token.type in _MEANING:
            marks.append(_MEANING[token.type])
            if token.type == "link_open":
                links.append((str(token.attrs.get("href", "")), []))
        elif token.type.endswith("_close"):
            marks.pop()
            if token.type == "link_close":
                lines[-1] += _address(*links.pop())
        else:
            code = [Mark.CODE] if token.type == "code_inline" else []
            lines[-1].append(_span(token.content, marks + code))
            for _, shown in links:
                shown.append(token.content)
            if token.type == "image":
                lines[-1] += _address(str(token.attrs.get("src", "")), [])
    return lines


def _span(text: str, marks: Sequence[Mark]) -> Span:
    *within, mark = marks or (Mark.TEXT,)
    return Span(drawable(text), mark, tuple(within))


def _address(address: str, shown: Sequence[str]) -> list[Span]:
    same = "".join(shown) in (address, address.removeprefix("mailto:"))
    return [Span(drawable(f" ({address})"), Mark.URL)] if address and not same else []
