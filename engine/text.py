"""Turn one row's tokens into text that can be sent: whole characters, no part of a stop string."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LONGEST_SPLIT = 8
"""Tokens one character can be spread over, with room to spare; more are bytes that will never make
a character, and holding them would hold the stream for good."""


class Detokenizer:
    """Incremental decoding. A character split over tokens is held until it is whole.

    `tokenizers.decoders.DecodeStream` does the same but offers no way to get at what it holds back
    when generation ends, and raises on some byte sequences; both matter here.
    """

    def __init__(self, backend: Backend, shown: Collection[int] = ()) -> None:
        """shown: special tokens that are text all the same."""
        self._backend = backend
        self._shown = shown
        self._tokens: list[int] = []
        self._context = 0  # decoding starts here, so that word-boundary rules see their left side
        self._sent = 0  # tokens before this one are already text

    def push(self, token: int) -> str:
        """The text that became certain with this token, often "" inside a character."""
        self._tokens.append(token)
        text = self._unsent()
        if text.endswith(REPLACEMENT) and len(self._tokens) - self._sent <= LONGEST_SPLIT:
            return ""
        return self._take(text)

    def flush(self) -> str:
        """What is still held: the pieces of an unfinished character, as replacement characters."""
        return self._take(self._unsent())

    def _unsent(self) -> str:
        before = self._decode(self._tokens[self._context : self._sent])
        return self._decode(self._tokens[self._context :])[len(before) :]

    def _take(self, text: str) -> str:
        if text:
            self._context, self._sent = self._sent, len(self._tokens)
        return text

    def _decode(self, tokens: list[int]) -> str:
        return "".join(
            self._backend.decode(list(run), skip_special_tokens=not shown)
            for shown, run in groupby(tokens, self._shown.__contains__)
        )


class StopMatcher:
    """Find stop strings in streamed text, wherever the pieces are cut. found: the one that was."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.found: str | None = None
        self._stops = stops
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """(text that can be sent, whether a stop string ended it). Text that may still turn out to
        begin a stop string is held back."""
        self._held += text
        found = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            at, self.found = min(found)
            sendable, self._held = self._held[:at], ""
            return sendable, True
        keep = self._undecided()
        cut = len(self._held) - keep
        sendable, self._held = self._held[:cut], self._held[cut:]
        return sendable, False

    def flush(self) -> str:
        """Held text that turned out to be no stop string."""
        held, self._held = self._held, ""
        return held

    def _undecided(self) -> int:
        """Length of the longest tail that begins a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0


class RowText:
    """One row's text: tokens in, sendable text out."""

    def __init__(self, backend: Backend, stops: Sequence[str], shown: Collection[int] = ()) -> None:
        """shown: special tokens that are text all the same."""
        self._detokenizer = Detokenizer(backend, shown)
        self._stops = StopMatcher(stops)
        self.decoded = 0
        """Characters the tokens made so far, sendable or not: where the next token's begin."""

    @property
    def stop(self) -> str | None:
        """The stop string that was hit."""
        return self._stops.found

    def push(self, token: int) -> tuple[str, bool]:
        """(new sendable text, whether a stop string was hit)."""
        text = self._detokenizer.push(token)
        self.decoded += len(text)
        return self._stops.push(text)

    def flush(self) -> str:
        """The rest, when generation ended for another reason than a stop string."""
        text, stopped = self._stops.push(self._detokenizer.flush())
        return text if stopped else text + self._stops.flush()
