"""Foreign text: safe to draw, and never wider than it was counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from wcwidth import wcwidth

from dspark_tui.text.foreign import drawable
from dspark_tui.text.wrap import cut, wrap, wrap_values


def rows(text: str, width: int, hang: int = 0) -> list[str]:
    text = drawable(text)
    return [text[start:end] for start, end in wrap(text, width, hang)]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("", 10, [""]),
        ("   ", 10, [""]),
        ("hello world foo", 11, ["hello world", "foo"]),
        ("ends in blanks      ", 8, ["ends in", "blanks"]),
        ("a" + " " * 30 + "b", 10, ["a", "b"]),
        ("  indented", 20, ["  indented"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("see " + "x" * 12 + " y", 10, ["see", "x" * 10, "xx y"]),
        ("日本語abc def漢字", 8, ["日本語", "abc def", "漢字"]),
        ("水滴、光", 4, ["水", "滴、", "光"]),  # a row never starts with a comma
        ("日", 1, ["日"]),
        ("ab", 0, ["a", "b"]),
    ],
)
def test_rows(text: str, width: int, expected: list[str]) -> None:
    assert rows(text, width) == expected


def test_later_rows_leave_room_for_the_hanging_indent() -> None:
    assert rows("- one two three", 9, hang=2) == ["- one two", "three"]
    assert rows("- " + "x" * 20, 10, hang=2) == ["- xxxxxxxx", "xxxxxxxx", "xxxx"]
    assert rows("1234567890. ab cd", 12, hang=12) == ["1234567890.", "ab cd"]  # too deep: no hang


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (40, ["x stopped   412 tok  30.3 tok/s  14.2 s"]),
        (38, ["x stopped   412 tok  30.3 tok/s", "14.2 s"]),
        (20, ["x stopped   412 tok", "30.3 tok/s  14.2 s"]),
        (19, ["x stopped   412 tok", "30.3 tok/s", "14.2 s"]),
        (10, ["x stopped", "412 tok", "30.3", "tok/s", "14.2 s"]),
    ],
)
def test_no_row_ends_within_a_value_that_fits_one(width: int, expected: list[str]) -> None:
    text = "x stopped   412 tok  30.3 tok/s  14.2 s"
    assert [text[start:end] for start, end in wrap_values(text, width, 2)] == expected


def test_east_asian_text_fills_its_rows() -> None:
    """Text without blanks breaks between characters, so a 30-cell pane is nearly full."""
    text = "光线进入水滴后会发生折射，然后在背面反射。" * 10
    *full, _ = rows(text[:200], 30)
    assert len(full) >= 13
    assert all(cell_len(row) >= 28 for row in full)


@pytest.mark.parametrize(
    "text", ["☺️ ❤️ 1️⃣", "👩‍👩‍👧 👍🏽 🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "e\u0301a\u0308", "עִבְרִית ‏ العربية", "ก็ नमस्ते"]
)
def test_all_terminals_count_the_same_cells(text: str) -> None:
    """A terminal that adds up code points agrees with one that joins clusters."""
    shown = drawable(text)
    assert cell_len(shown) == sum(max(0, wcwidth(character)) for character in shown)


@pytest.mark.parametrize("wrapped", [wrap, wrap_values])
@given(text=st.text(max_size=80), width=st.integers(1, 40), hang=st.integers(0, 6))
def test_nothing_is_lost_or_too_wide(
    wrapped: Callable[[str, int, int], list[tuple[int, int]]], text: str, width: int, hang: int
) -> None:
    shown = drawable(text)
    slices = wrapped(shown, width, hang)
    kept = "".join(shown[start:end] for start, end in slices)
    assert kept.split() == shown.split() or "".join(kept.split()) == "".join(shown.split())
    for start, end in slices:
        assert cell_len(shown[start:end].rstrip()) <= max(width, 2)
    assert all(ord(character) >= 32 for character in shown)
    shown.encode()


@given(st.text(max_size=20), st.integers(0, 12))
def test_cut_is_exactly_as_wide_as_asked(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) == width


def test_cut_shows_that_something_is_missing() -> None:
    assert cut("a long label", 6) == "a lon~"
    assert cut("日本語", 4) == "日 ~"
    assert cut("ab", 4) == "ab  "
