"""Single tokens as text and bytes. A token may be a part of a character."""

from __future__ import annotations

import json
import re
from functools import cached_property

import tokenizers

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
_WORD_START = "▁"


class Speller:
    """Spells the tokens of one vocabulary: what each adds to a text, wherever it stands."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._added = backend.get_added_tokens_decoder()

    def spell(self, token: int) -> tuple[str, bytes | None]:
        """(the token for a reader, its bytes). None for special tokens, which add no text, and for
        ids the tokenizer doesn't know."""
        added, piece = self._added.get(token), self._backend.id_to_token(token)
        if piece is None or (added is not None and added.special):
            return piece or "", None
        raw = added.content.encode() if added is not None else self._bytes(piece)
        return raw.decode("utf-8", "replace"), raw

    def _bytes(self, piece: str) -> bytes:
        if self._byte_level:
            return b"".join(_BYTES.get(character, character.encode()) for character in piece)
        if byte := _BYTE_PIECE.fullmatch(piece):
            return bytes.fromhex(byte[1])
        return piece.replace(_WORD_START, " ").encode()

    @cached_property
    def _byte_level(self) -> bool:
        """Does every character of a piece stand for a byte?"""
        decoder = self._backend.decoder
        state = json.loads(decoder.__getstate__()) if decoder is not None else {}
        steps = state.get("decoders", [state])
        return any(step.get("type") == "ByteLevel" for step in steps)


def _byte_characters() -> dict[str, bytes]:
    """The byte-level alphabet: printable Latin-1 stands for itself, the other bytes, in order, for
    the characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    table = {chr(byte): bytes([byte]) for byte in printable}
    return table | {chr(0x100 + place): bytes([byte]) for place, byte in enumerate(others)}


_BYTES = _byte_characters()
