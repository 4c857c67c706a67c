"""Grammars over one model's tokens: what llguidance needs of its vocabulary, made once."""

from __future__ import annotations

import threading
from collections.abc import Collection

import tokenizers
from llguidance import LLMatcher, LLTokenizer


class Guide:
    """Makes matchers for a vocabulary. Any thread; the first use takes a second or so."""

    def __init__(
        self, backend: tokenizers.Tokenizer, logits: int | None, eos: Collection[int]
    ) -> None:
        """logits: width of the model's output, when known."""
        self._backend = backend
        self._logits = logits
        self._eos = sorted(eos)
        self._lock = threading.Lock()
        self._tokens: LLTokenizer | None = None

    def fault(self, grammar: str) -> str:
        """What is wrong with an llguidance grammar, in one line; "" for nothing."""
        message = LLMatcher.validate_grammar(grammar, self._vocabulary())
        return "" if message.startswith("WARNING") else " ".join(message.split())

    def matcher(self, grammar: str) -> LLMatcher:
        """A new walk through the grammar. Never raises: faults show on the matcher."""
        return LLMatcher(self._vocabulary(), grammar)

    def _vocabulary(self) -> LLTokenizer:
        with self._lock:
            if self._tokens is None:
                self._tokens = LLTokenizer(
                    self._backend.to_str(), n_vocab=self._logits, eos_token=self._eos
                )
            return self._tokens
