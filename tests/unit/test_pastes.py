"""Chips: which texts become one, what they stand for, how a draft is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark_tui.conversation.pastes import Draft, Paste, Pastes, drawn

LARGE = "x" * 2_001
TEXTS = st.text(st.characters() | st.sampled_from("\n\U00100001\U0010fffd"), max_size=120)


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("x" * 2_000, False),
        (LARGE, True),
        ("line\n" * 39 + "line", False),
        ("line\n" * 40 + "line", True),
    ],
)
def test_long_texts_and_texts_of_many_lines_become_a_chip(text: str, becomes: bool) -> None:
    pastes = Pastes()
    assert (pastes.fold(text) != text) is becomes
    assert pastes.unfolded(pastes.fold(text)) == text


@pytest.mark.parametrize("over", [0, 100, 10_000])
def test_where_a_text_becomes_large_is_a_setting(over: int) -> None:
    pastes = Pastes(over)
    assert pastes.fold("x" * over) == "x" * over
    assert (pastes.fold("x" * (over + 1)) == "x" * (over + 1)) is (over == 0)


@given(st.lists(TEXTS, max_size=4), st.integers(1, 60))
def test_whatever_is_put_in_comes_out_unchanged(texts: list[str], over: int) -> None:
    pastes = Pastes(over)
    folded = "".join(pastes.fold(text) for text in texts)
    assert pastes.unfolded(folded) == "".join(texts)
    draft = Draft(folded, pastes.within(folded))
    assert Draft.loads(draft.dumps()) == draft
    assert draft.prompt == "".join(texts)
    assert len(drawn(folded)) == len(folded)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (LARGE, "[pasted 7: 1 line, 2 kB]"),
        ("ab\n" * 1_204, "[pasted 7: 1,204 lines, 4 kB]"),
        ("é" * 500_000, "[pasted 7: 1 line, 1.0 MB]"),
        ("", "[pasted 7: 1 line, 0 B]"),
    ],
)
def test_the_label_says_how_much_it_is(text: str, label: str) -> None:
    assert drawn(Paste(7, text).chip) == label


def test_a_label_of_a_wild_name_is_one_harmless_line() -> None:
    chip = Paste(1, "x", "a\nb\U0010fffd\x1b[31m").chip
    assert drawn(chip) == "[a␊b␛[31m 1: 1 line, 1 B]"


def test_a_known_paste_in_a_large_text_becomes_its_chip_again() -> None:
    pastes = Pastes()
    sent = pastes.unfolded(f"before {pastes.fold(LARGE)} after")
    pastes.add("e", "letter.txt")
    pastes.hold(())
    assert drawn(pastes.fold(sent)) == "before [pasted 1: 1 line, 2 kB] after"


def test_equal_pastes_become_chips_again_each() -> None:
    pastes = Pastes()
    sent = pastes.unfolded(pastes.add(LARGE, "a.txt") + pastes.add(LARGE, "a.txt"))
    pastes.hold(())
    folded = pastes.fold(sent)
    assert drawn(folded) == "[a.txt 1: 1 line, 2 kB][a.txt 2: 1 line, 2 kB]"


def test_a_draft_keeps_only_the_pastes_that_are_in_it() -> None:
    pastes = Pastes()
    first, second = pastes.add("one"), pastes.add("two")
    assert [paste.text for paste in pastes.within(f"a{second}")] == ["two"]
    assert [paste.text for paste in pastes.within(f"{first}{second}")] == ["one", "two"]


@pytest.mark.parametrize(
    "saved",
    [
        "", "[]", "{}", "null",
        '{"text": "x", "pastes": [], "caret": [0]}',
        '{"text": "\\ud800", "pastes": [{"number": 1}], "caret": [0, 0]}',
        '{"text": "\\udbc0\\udc01x\\udbff\\udffd", "pastes": [], "caret": [0, 0]}',
    ],
)  # fmt: skip
def test_what_is_no_saved_draft_is_refused(saved: str) -> None:
    with pytest.raises(ValueError, match="no saved draft"):
        Draft.loads(saved)
