"""Prompts nothing has seen before: a nonce comes first, so no prefix cache can flatter."""

from __future__ import annotations

import secrets
from itertools import cycle

TOPICS = (
    "rainbows form",
    "volcanoes erupt",
    "glaciers move",
    "magnets attract iron",
    "tides rise and fall",
    "lightning strikes",
    "bees find flowers",
    "compilers work",
)
FILLER = "The ship sailed past the island and the crew sang."
FILLER_WORDS = len(FILLER.split())


class Prompts:
    """Different prompts of nearly one length, whose answers run long."""

    def __init__(self) -> None:
        self._topics = cycle(TOPICS)

    def short(self) -> str:
        return f"[{_nonce()}] Explain in detail how {next(self._topics)}."

    def long(self, words: int) -> str:
        """A prompt of about this many words."""
        return f"[{_nonce()}] Retell this: " + f"{FILLER} " * max(1, words // FILLER_WORDS)


def _nonce() -> str:
    return secrets.token_hex(4)
