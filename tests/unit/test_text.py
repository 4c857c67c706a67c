"""Streamed text: whole characters only, stop strings wherever tokens are cut, nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from engine.text import REPLACEMENT, Detokenizer, RowText, StopMatcher


@pytest.fixture(scope="module")
def by_byte() -> Tokenizer:
    """A byte-level tokenizer without merges: every byte is a token, the worst case for splits."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.mark.parametrize(
    "text", ["👩‍👩‍👧 ďábel 漢字", "plain", " leading and trailing ", "a\n\nb", "❤️ 1️⃣"]
)
def test_characters_arrive_whole(by_byte: Tokenizer, text: str) -> None:
    detokenizer = Detokenizer(by_byte)
    pieces = [detokenizer.push(token) for token in by_byte.encode(text).ids]
    assert "".join(pieces) == text
    assert REPLACEMENT not in "".join(pieces)
    assert detokenizer.flush() == ""


def test_a_character_cut_by_the_end_is_shown_as_replaced(by_byte: Tokenizer) -> None:
    detokenizer = Detokenizer(by_byte)
    pieces = [detokenizer.push(token) for token in by_byte.encode("ok 漢").ids[:-1]]
    assert "".join(pieces) == "ok "
    assert set(detokenizer.flush()) == {REPLACEMENT}


def test_bytes_that_never_make_a_character_do_not_hold_the_stream(by_byte: Tokenizer) -> None:
    stray = by_byte.encode("漢").ids[1]
    detokenizer = Detokenizer(by_byte)
    for _ in range(50):
        detokenizer.push(stray)
    pieces = [detokenizer.push(token) for token in by_byte.encode(" and on").ids]
    assert "".join(pieces).endswith(" and on")


def test_a_stop_string_across_tokens_ends_before_it() -> None:
    matcher = StopMatcher(["en te"])
    sent = [matcher.push(piece) for piece in ("t", "en", " t")]
    assert sent == [("t", False), ("", False), ("", False)]
    assert matcher.push("en ten") == ("", True)
    assert matcher.flush() == ""


def test_text_held_for_a_stop_string_that_never_came_is_delivered() -> None:
    matcher = StopMatcher(["TRE\nAAAA"])
    assert matcher.push("a TRE") == ("a ", False)
    assert matcher.flush() == "TRE"


def test_the_earliest_of_several_stop_strings_wins() -> None:
    matcher = StopMatcher(["world", "lo"])
    assert matcher.push("hello world") == ("hel", True)


@given(
    text=st.text("abc", max_size=40),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(1, 5), min_size=40, max_size=40),
)
def test_any_cut_gives_the_text_before_the_first_stop(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    matcher, sent, stopped, at = StopMatcher(stops), "", False, 0
    for size in cuts:
        piece, stopped = matcher.push(text[at : at + size])
        sent, at = sent + piece, at + size
        if stopped:
            break
    sent += "" if stopped else matcher.flush()

    assert stopped == any(stop in text for stop in stops)
    assert text.startswith(sent)
    assert all(stop not in sent for stop in stops)
    if stopped:
        # The stop string that was seen first: cutting there, it follows the text that was sent.
        assert any(text[len(sent) :].startswith(stop) for stop in stops)
    else:
        assert sent == text


def test_end_of_generation_delivers_what_both_layers_hold(by_byte: Tokenizer) -> None:
    row = RowText(by_byte, ["stop"])
    for token in by_byte.encode("x st").ids:
        row.push(token)
    assert row.flush() == "st"
