"""How long a text is in tokens, and whether the model can take that many. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dspark_tui.text.counted import counted


class TokenCount(Struct, frozen=True):
    """limit: the model's longest row, if the server says."""

    tokens: int
    limit: int | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> TokenCount | None:
        """What the answer to `POST /tokenize` says: vLLM's `count`, or llama.cpp's `tokens`."""
        count, tokens, limit = (document.get(key) for key in ("count", "tokens", "max_model_len"))
        if not isinstance(count, int):
            if not isinstance(tokens, list):
                return None
            count = len(tokens)
        return cls(count, limit if isinstance(limit, int) else None)

    @property
    def over(self) -> bool:
        """Too long, whatever else is in the conversation?"""
        return self.limit is not None and self.tokens >= self.limit

    def __str__(self) -> str:
        words = counted(self.tokens, "token")
        return f"{words}: the model takes {self.limit:,}" if self.over else words
