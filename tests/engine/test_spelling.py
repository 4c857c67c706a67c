"""Tokens one by one: their bytes make the text, whatever kind the vocabulary is of."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from engine.models.spelling import Speller

TEXT = "Hello  wörld,\n👩‍👩‍👧 ďábel 漢字\t¡¬­ÿ"


@pytest.fixture
def byte_level(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))


def byte_fallback() -> Tokenizer:
    """A vocabulary as sentencepiece makes them."""
    pieces = ["<unk>", "<s>", "▁Hello", "▁", "wörld", *(f"<0x{byte:02X}>" for byte in range(256))]
    model = models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    return tokenizer


def test_the_bytes_of_a_byte_level_vocabulary_make_the_text(byte_level: Tokenizer) -> None:
    tokens = byte_level.encode(TEXT, add_special_tokens=False).ids
    spelled = [Speller(byte_level).spell(token) for token in tokens]
    assert b"".join(raw or b"" for _, raw in spelled).decode() == TEXT
    assert all(text == (raw or b"").decode("utf-8", "replace") for text, raw in spelled)


def test_every_single_byte_can_be_spelled() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    backend.decoder = decoders.ByteLevel()
    spell = Speller(backend).spell
    assert {spell(token)[1] for token in range(256)} == {bytes([byte]) for byte in range(256)}


@pytest.mark.parametrize(
    ("piece", "raw"),
    [("▁Hello", b" Hello"), ("▁", b" "), ("wörld", "wörld".encode()), ("<0xF0>", b"\xf0")],
)
def test_pieces_of_a_sentencepiece_vocabulary(piece: str, raw: bytes) -> None:
    backend = byte_fallback()
    token = backend.token_to_id(piece)
    assert Speller(backend).spell(token) == (raw.decode("utf-8", "replace"), raw)


def test_special_tokens_have_a_name_and_no_bytes_and_added_words_are_themselves(
    byte_level: Tokenizer,
) -> None:
    byte_level.add_tokens([AddedToken("<think>", special=False)])
    spell = Speller(byte_level).spell
    assert spell(byte_level.token_to_id("<|im_end|>")) == ("<|im_end|>", None)
    assert spell(byte_level.token_to_id("<think>")) == ("<think>", b"<think>")


def test_an_id_beyond_the_vocabulary_is_no_error(byte_level: Tokenizer) -> None:
    assert Speller(byte_level).spell(10**6) == ("", None)
