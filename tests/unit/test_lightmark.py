"""Light Markdown: every character stays, and half a line never upsets the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark_tui.text.lightmark import Fence, Mark, fence_after, hang, runs


def marked(line: str, fence: Fence | None = None) -> list[tuple[str, str]]:
    return [(line[run.start : run.end], run.mark.value) for run in runs(line, fence)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("## Why", [("## ", "sign"), ("Why", "heading")]),
        ("#tag", [("#tag", "text")]),
        ("- a", [("- ", "bullet"), ("a", "text")]),
        ("  12. a", [("  12. ", "bullet"), ("a", "text")]),
        (
            "a **b** c",
            [("a ", "text"), ("**", "sign"), ("b", "bold"), ("**", "sign"), (" c", "text")],
        ),
        ("a **half", [("a **half", "text")]),
        ("`x`", [("`", "sign"), ("x", "code"), ("`", "sign")]),
        ("`` a ` b ``", [("``", "sign"), (" a ` b ", "code"), ("``", "sign")]),
        ("`**x**`", [("`", "sign"), ("**x**", "code"), ("`", "sign")]),
        (
            "*em* 2 * 3 * 4",
            [("*", "sign"), ("em", "emphasis"), ("*", "sign"), (" 2 * 3 * 4", "text")],
        ),
        ("__init__ snake_case_name", [("__init__ snake_case_name", "text")]),
        ("[/x] a[/]b", [("[/x] a[/]b", "text")]),
    ],
)
def test_prose(line: str, expected: list[tuple[str, str]]) -> None:
    assert marked(line) == expected


def test_a_fence_holds_until_its_own_kind_closes_it() -> None:
    fence = fence_after("````python", None)
    assert fence == Fence("````")
    for line in ("# not a heading", "```", "~~~~", "", "**x**"):
        assert fence_after(line, fence) == fence
        assert [mark for _, mark in marked(line, fence)] == ["fence"]
    assert fence_after("````", fence) is None
    assert fence_after("`````  ", fence) is None
    assert fence_after("~~~", None) == Fence("~~~")
    assert fence_after("``` inline ```", None) is None


def test_list_items_hang_and_code_does_not() -> None:
    assert hang("- item", None) == 2
    assert hang("  10. item", None) == 6
    assert hang("prose", None) == 0
    assert hang("- item", Fence("```")) == 0


@given(st.text(alphabet="ab `*_#-1.[]/~\\", max_size=60))
def test_the_runs_cover_the_line_without_gaps(line: str) -> None:
    for fence in (None, Fence("```")):
        found = runs(line, fence)
        assert "".join(line[run.start : run.end] for run in found) == line
        assert all(isinstance(run.mark, Mark) for run in found)
