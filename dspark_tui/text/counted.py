"""How many of something, in words. Pure."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """ "1 pane", "2,000 panes": for nouns whose plural only adds an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
