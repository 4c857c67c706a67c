"""The fenced code blocks of a Markdown answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dspark_tui.text.lightmark import Fence, fence_after


class CodeBlock(Struct, frozen=True):
    """language: what the fence says, "" if nothing. text: the lines between the fences."""

    language: str
    text: str


def code_blocks(markdown: str) -> list[CodeBlock]:
    """All of them in order; one that is never closed runs to the end. Empty ones don't count."""
    found: list[tuple[str, list[str]]] = []
    fence: Fence | None = None
    for line in markdown.split("\n"):
        after = fence_after(line, fence)
        if fence is None and after is not None:
            found.append((line, []))
        elif after is not None:
            found[-1][1].append(line)
        fence = after
    return [_block(opening, content) for opening, content in found if any(content)]


def _block(opening: str, content: Iterable[str]) -> CodeBlock:
    """Lines lose as much of their indent as the opening fence has."""
    info = opening.lstrip()
    indent = len(opening) - len(info)
    words = info.lstrip(info[0]).split()
    text = "\n".join(line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in content)
    return CodeBlock(words[0] if words else "", text)
