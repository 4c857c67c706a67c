"""Grammars over one model's tokens: what llguidance needs of its vocabulary, made once."""

from __future__ import annotations

import threading
from collections.abc import Collection
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


class FormError(Exception):
    """Nothing can be kept to this form; `str()` is one line."""


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

    def json(self, schema: dict[str, Any]) -> str:
        """The grammar of all JSON that a schema allows. Raises FormError."""
        grammar = LLMatcher.grammar_from_json_schema(schema, overrides=STYLE)
        failed, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._vocabulary())
        if failed:
            raise FormError(" ".join(" ".join(messages).split()))
        return grammar

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
