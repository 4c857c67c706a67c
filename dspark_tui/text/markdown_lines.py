"""A finished Markdown answer set in type, as lines that wrap to any width. Pure.

Every source line belongs to exactly one of the lines, so what is copied is the source. Blank lines
stay where the writer left them: the text hardly moves when it replaces what was streamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct, field

from dspark_tui.text.foreign import drawable
from dspark_tui.text.lightmark import Mark, Run
from dspark_tui.text.lines import Kind, Line, RuleLine, SetLine
from dspark_tui.text.markdown_code import coloured
from dspark_tui.text.markdown_spans import Span, inline_lines, runs_of, text_of
from dspark_tui.text.markdown_table import Table, TableLine

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

DEEPEST = 60
"""Levels of lists and quotes; the parser leaves out what is deeper, so that is shown as written."""


def set_in_type(source: str) -> list[Line]:
    """The lines of an answer, not laid out yet; their sources joined are `source`."""
    tokens = _parser().parse(source.replace("\r\n", "\n").replace("\r", "␍"))
    lines = _Setter(source.split("\n")).walk(tokens)
    whole = max((token.level for token in tokens), default=0) < DEEPEST - 2
    return lines if lines and whole and _source(lines) == source else as_written(source)


def as_written(source: str) -> list[Line]:
    """The same lines without any Markdown."""
    return [_written(line) for line in source.split("\n")]


def _written(line: str) -> Line:
    text = drawable(line.removesuffix("\r"))
    return SetLine(Kind.ANSWER, line, text, (Run(0, len(text), Mark.TEXT),), "")


def _source(lines: Iterable[Line]) -> str:
    return "\n".join(line.source for line in lines)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "maxNesting": DEEPEST}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "math", _math)
    return parser


def _math(state: StateInline, silent: bool) -> bool:
    r"""Keep the backslashes of `\(x\)` and `\[x\]`: models mean formulas by them."""
    sign = state.src[state.pos : state.pos + 2]
    if len(sign) < 2 or sign[0] != "\\" or sign[1] not in "()[]":
        return False
    if not silent:
        state.pending += sign
    state.pos += 2
    return True


class _Container(Struct, eq=False):
    """A quote or a list item. bullet: drawn once, before its first line; after that, indent is."""

    origin: int
    indent: Span
    bullet: Span | None = None


class _Setter(Struct):
    """Walks the blocks. origins: the source line that each drawn line begins with."""

    source: list[str]
    lines: list[Line] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    inside: list[_Container] = field(default_factory=list)
    was_inside: list[_Container] = field(default_factory=list)

    def walk(self, tokens: Sequence[Token]) -> list[Line]:
        rest = iter(tokens)
        for token in rest:
            start, end = token.map or (0, 0)
            match token.type:
                case "blockquote_open":
                    self.inside.append(_Container(start, Span("│ ", Mark.SIGN)))
                case "list_item_open":
                    bullet = f"{token.info}{token.markup} " if token.info else "- "
                    blank, sign = Span(" " * len(bullet)), Span(bullet, Mark.BULLET)
                    self.inside.append(_Container(start, blank, sign))
                case "list_item_close" | "blockquote_close":
                    self._leave()
                case "heading_open":
                    title = (Mark.TITLE,) if token.tag == "h1" else ()
                    self._inline(start, next(rest), Mark.HEADING, *title)
                case "paragraph_open":
                    self._inline(start, next(rest))
                case "fence":
                    self._fence(token, start, end)
                case "code_block":
                    self._code(start, token.content, "")
                case "hr":
                    before, _ = self._begin(start)
                    self.lines.append(RuleLine(Kind.ANSWER, "", text_of(before)))
                case "table_open":
                    self._table(start, rest)
        return self._with_sources()

    def _leave(self) -> None:
        if self.inside[-1].bullet is not None:  # an item with nothing in it
            self._text(self.inside[-1].origin, [])
        self.inside.pop()

    def _inline(self, start: int, token: Token, *base: Mark) -> None:
        for number, spans in enumerate(inline_lines(token.children or [], *base)):
            self._text(start + number, spans)

    def _fence(self, token: Token, start: int, end: int) -> None:
        """The fences themselves stay as rows of their own, the upper one naming the language."""
        language = (token.info.split() or [""])[0]
        self._text(start, [Span(drawable(language), Mark.LANGUAGE, (Mark.FENCE,))], Mark.FENCE)
        count = self._code(start + 1, token.content, language)
        if end - start - 1 > count:
            self._text(end - 1, [], Mark.FENCE)

    def _code(self, start: int, content: str, language: str) -> int:
        code = content.removesuffix("\n").split("\n") if content else []
        for number, spans in enumerate(coloured([*map(drawable, code)], language)):
            self._text(start + number, spans, Mark.FENCE)
        return len(code)

    def _table(self, start: int, rest: Iterator[Token]) -> None:
        table = Table()
        for token in rest:
            match token.type:
                case "th_open":
                    style = str(token.attrs.get("style", ""))
                    table.aligned.append(style.removeprefix("text-align:") or "left")
                case "tr_open":
                    table.rows.append([])
                    place = len(table.rows) - 1
                    self._table_line(table, place, (token.map or (start + 1 + place, 0))[0])
                    if place == 0:
                        self._table_line(table, None, start + 1)
                case "inline":
                    heading = (Mark.BOLD,) if len(table.rows) == 1 else ()
                    (cell,) = inline_lines(token.children or [], *heading)
                    table.rows[-1].append(cell)
                case "table_close":
                    return

    def _table_line(self, table: Table, row: int | None, origin: int) -> None:
        before, indent = self._begin(origin)
        self.lines.append(TableLine(Kind.ANSWER, "", table, row, tuple(before), indent))

    def _text(self, origin: int, spans: Sequence[Span], fill: Mark = Mark.TEXT) -> None:
        before, indent = self._begin(origin)
        spans = [*before, *spans]
        runs = tuple(runs_of(spans))
        self.lines.append(SetLine(Kind.ANSWER, "", text_of(spans), runs, indent, fill))

    def _begin(self, origin: int) -> tuple[list[Span], str]:
        """What goes before a new line's text, and before that of its later rows."""
        self._gap(origin)
        self.origins.append(origin)
        before = [container.bullet or container.indent for container in self.inside]
        for container in self.inside:
            container.bullet = None
        self.was_inside = list(self.inside)
        return before, text_of(container.indent for container in self.inside)

    def _gap(self, origin: int) -> None:
        """An empty line where the source has any, within the quotes that go on across it."""
        blank = origin
        while self.origins and blank - 1 > self.origins[-1] and not _seen(self.source[blank - 1]):
            blank -= 1
        if blank == origin or not self.origins:
            return
        both = takewhile(
            lambda pair: pair[0] is pair[1], zip(self.inside, self.was_inside, strict=False)
        )
        text = text_of(container.indent for container, _ in both).rstrip()
        runs = (Run(0, len(text), Mark.SIGN),)
        self.origins.append(blank)
        self.lines.append(SetLine(Kind.ANSWER, "", text, runs, text))

    def _with_sources(self) -> list[Line]:
        ends = [*self.origins[1:], len(self.source)]
        start = 0  # what comes before the first line, as links' addresses may, belongs to it
        for line, end in zip(self.lines, ends, strict=False):
            line.source = "\n".join(self.source[start:end])
            start = end
        return self.lines


def _seen(line: str) -> bool:
    return bool(line.strip(" >\t\r"))
