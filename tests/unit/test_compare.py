"""Answers set against each other: the words that differ, their counts, and the rows drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dspark_tui.batch.parts import Row
from dspark_tui.comparison.compare import Counts, compare, words
from dspark_tui.comparison.diff_layout import Mark, changed, side_by_side, unified

TEXTS = st.lists(st.sampled_from(["red", "fox", "don't", " ", "\n", ",", "水", "滴", "\t", "é"]))


def shown(rows: list[Row]) -> list[str]:
    return ["".join(part.text for part in row).rstrip() for row in rows]


def test_words_in_common_are_found_whatever_blanks_and_signs_surround_them() -> None:
    diff = compare("The quick, brown fox.\n", "The  slow, red fox!\n")
    assert [(hunk.left, hunk.right) for hunk in diff.hunks if not hunk.same] == [
        ("quick, brown ", "slow, red "),
        (".", "!"),
    ]
    assert diff.counts == Counts(same=2, removed=2, added=2)
    assert diff.counts.similarity == 0.5


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" \n ... -- ", 0),
        ("I don't know", 3),
        ("don’t", 1),
        ("42.0 degrees", 3),
        ("光线 enters", 3),
        ("कविता", 1),
    ],
)
def test_words_are_counted_in_any_script(text: str, count: int) -> None:
    assert words(text) == count


def test_equal_and_empty_answers_are_alike_and_blanks_don_t_count() -> None:
    assert compare("", "").counts.similarity == 1.0
    assert compare("", "one two").counts == Counts(same=0, removed=0, added=2)
    diff = compare("one  two", "one two")
    assert diff.counts.similarity == 1.0
    assert all(hunk.same for hunk in diff.hunks)


@given(TEXTS.map("".join), TEXTS.map("".join))
def test_the_hunks_give_both_texts_back_and_the_counts_add_up(left: str, right: str) -> None:
    diff = compare(left, right)
    for text, back in (
        (left, "".join(hunk.left for hunk in diff.hunks)),
        (right, "".join(hunk.right for hunk in diff.hunks)),
    ):
        assert back == (text if text.strip(" \t") else "")
    assert diff.counts.same + diff.counts.removed == words(left)
    assert diff.counts.same + diff.counts.added == words(right)


def test_columns_are_level_again_at_each_line_end_both_have() -> None:
    diff = compare("first\n\nsame end", "another line\nin between\n\nsame end")
    assert shown(side_by_side(diff, 43, "|")) == [
        "[-first-]            | {+another line+}",
        "                     | {+in between+}",
        "                     |",
        "same end             | same end",
    ]


def test_one_column_shows_what_was_removed_before_what_was_added() -> None:
    diff = compare("a red fox", "a grey fox [/b]")
    assert shown(unified(diff, 40)) == ["a [-red-] {+grey+} fox {+[/b]+}"]
    assert shown(unified(diff, 16)) == ["a [-red-]", "{+grey+} fox", "{+[/b]+}"]


def test_what_differs_is_marked_as_such() -> None:
    rows = unified(compare("same\nold", "same\nnew"), 40)
    assert [changed(row) for row in rows] == [False, True]
    assert [part.style for part in rows[1] if part.text] == [Mark.REMOVED, Mark.ADDED]


@given(TEXTS.map("".join), TEXTS.map("".join), st.integers(20, 60))
def test_no_row_is_wider_than_its_place_and_the_rule_stands_straight(
    left: str, right: str, width: int
) -> None:
    diff = compare(left, right)
    assert all(cell_len(row) <= width for row in shown(unified(diff, width)))
    for row in side_by_side(diff, width, "|"):
        at = next(number for number, part in enumerate(row) if part.style == Mark.RULE)
        assert sum(cell_len(part.text) for part in row[:at]) == (width - 3) // 2
        assert sum(cell_len(part.text) for part in row) <= width
        assert {part.style for part in row} <= set(Mark)
