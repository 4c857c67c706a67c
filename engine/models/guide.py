"""Grammars over one model's tokens: what llguidance needs of its vocabulary, made once."""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import tokenizers
from llguidance import LLMatcher, LLTokenizer

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

STYLE: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""JSON as Python writes it: a weak model can't get lost in white space."""


GRAMMARS_KEPT = 32
"""Compiled grammars at hand: clients ask for the same few again and again."""


class FormError(Exception):
    """Nothing can be kept to this form; `str()` is one line."""


class Guide:
    """Makes matchers for a vocabulary. Any thread.

    The first use reads the whole vocabulary, once: about half a second for 50,000 tokens, in which
    no other Python runs. Later grammars are compiled beside the engine's work, and a compiled one
    is copied in microseconds.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, logits: int | None, eos: Collection[int]
    ) -> None:
        """logits: width of the model's output, when known."""
        self._backend = backend
        self._logits = logits
        self._eos = sorted(eos)
        self._lock = threading.Lock()
        self._tokens: LLTokenizer | None = None
        self._compiled = lru_cache(GRAMMARS_KEPT)(self._compile)

    def json(self, schema: dict[str, Any]) -> str:
        """The grammar of all JSON that a schema allows. Raises FormError."""
        try:
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides=STYLE)
        except ValueError as error:  # infinite numbers, which JSON has none of
            raise FormError(" ".join(str(error).split())) from error
        compiled = self._compiled(grammar)
        if compiled.is_error():
            raise FormError(" ".join(compiled.get_error().split()))
        return grammar

    def matcher(self, grammar: str) -> LLMatcher:
        """A new walk through the grammar. Never raises: faults show on the matcher."""
        return self._compiled(grammar).deep_copy()

    def _compile(self, grammar: str) -> LLMatcher:
        return LLMatcher(self._vocabulary(), grammar)

    def _vocabulary(self) -> LLTokenizer:
        with self._lock:
            if self._tokens is None:
                self._tokens = LLTokenizer(
                    self._backend.to_str(), n_vocab=self._logits, eos_token=self._eos
                )
            return self._tokens
