"""How fast one request decodes. Pure."""

from __future__ import annotations

SHORTEST = 0.2
"""Seconds from the first token to the last below which a rate would be noise."""


def decode_rate(tokens: int, first: float | None, last: float | None) -> float | None:
    """Tokens a second after the first one, stalls included; None where that can't be told.

    first, last: when the first and the last token came.
    """
    if first is None or last is None or last - first < SHORTEST:
        return None
    return (tokens - 1) / (last - first)
