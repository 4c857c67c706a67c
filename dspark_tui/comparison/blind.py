"""Panes without names: letters in a shuffled order, so that an answer is judged by itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from string import ascii_uppercase

from dspark_tui.conversation.session import Session


def hide(session: Session, seed: int) -> None:
    """Shuffle the panes, the same way for the same seed, and call them A, B, C.

    Marks go: they would tell who is who.
    """
    Random(seed).shuffle(session.panes)
    _give_letters(session)


def hide_again(session: Session, numbers: Sequence[int]) -> None:
    """Call the panes A, B, C in the order of these numbers, as they were called before; nothing if
    they are not the panes' numbers."""
    if sorted(numbers) == sorted(pane.number for pane in session.panes):
        session.panes.sort(key=lambda pane: numbers.index(pane.number))
        _give_letters(session)


def _give_letters(session: Session) -> None:
    for letter, pane in zip(ascii_uppercase, session.panes, strict=False):
        pane.alias, pane.marked = letter, False


def reveal(session: Session) -> None:
    """Bring names and order back."""
    session.panes.sort(key=lambda pane: pane.number)
    for pane in session.panes:
        pane.alias = ""


def hidden(session: Session) -> bool:
    return any(pane.alias for pane in session.panes)


def engines_hidden(session: Session) -> bool:
    """Are there several, so that which one the active pane asks would tell who it is?"""
    return hidden(session) and len({pane.params.engine for pane in session.panes}) > 1
