"""Code in colour: what each piece of a code block is, by Pygments. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dspark_tui.text.lightmark import Mark
from dspark_tui.text.markdown_spans import Span

if TYPE_CHECKING:
    from pygments.token import _TokenType

IN_FENCE = (Mark.FENCE,)
LONGEST_LINE = 1_000
MOST_CHARACTERS = 50_000
"""Past these, code stays plain: lexers are regular expressions, and those can take for ever."""


def coloured(lines: Sequence[str], language: str) -> list[list[Span]]:
    """Drawable lines of code as spans; plain where the language isn't known."""
    plain = [[Span(line, Mark.FENCE)] for line in lines]
    lengths = [len(line) for line in lines]
    if not language or not lines or sum(lengths) > MOST_CHARACTERS or max(lengths) > LONGEST_LINE:
        return plain
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return plain
    found: list[list[Span]] = [[]]
    tokens = ((_mark(kind), text) for kind, text in lexer.get_tokens("\n".join(lines)))
    for mark, pieces in groupby(tokens, key=lambda token: token[0]):
        first, *rest = "".join(text for _, text in pieces).split("\n")
        found[-1].append(_span(first, mark))
        found += [[_span(line, mark)] for line in rest]
    same = ["".join(span.text for span in line) for line in found] == list(lines)
    return found if same else plain


def _span(text: str, mark: Mark) -> Span:
    return Span(text, mark, () if mark is Mark.FENCE else IN_FENCE)


def _mark(kind: _TokenType) -> Mark:
    """What a Pygments token type means; types are tuples, the general ones being prefixes."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    meanings = (
        (Comment, Mark.COMMENT),
        (Keyword, Mark.KEYWORD),
        (Operator.Word, Mark.KEYWORD),
        (Name.Function, Mark.NAME),
        (Name.Class, Mark.NAME),
        (Name.Decorator, Mark.NAME),
        (Name.Tag, Mark.KEYWORD),
        (Name.Attribute, Mark.NAME),
        (String, Mark.STRING),
        (Number, Mark.NUMBER),
    )
    return next((mark for general, mark in meanings if kind[: len(general)] == general), Mark.FENCE)
