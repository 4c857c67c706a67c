"""Finished answers set in type: what is drawn of each line, in any width, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dspark_tui.text.lightmark import Mark
from dspark_tui.text.lines import Line
from dspark_tui.text.markdown_code import LONGEST_LINE
from dspark_tui.text.markdown_lines import set_in_type


def rows(source: str, width: int = 40) -> list[str]:
    """What is drawn, row by row."""
    drawn = []
    for line in laid_out(source, width):
        for number, (start, end) in enumerate(line.rows):
            drawn.append((line.hang if number else "") + line.drawn[start:end])
    return [row.rstrip() for row in drawn]


def laid_out(source: str, width: int = 40) -> list[Line]:
    lines = set_in_type(source)
    for line in lines:
        line.lay_out(width)
    return lines


def marked(source: str) -> dict[str, set[Mark]]:
    """What each piece of text means."""
    return {
        line.drawn[run.start : run.end]: {run.mark, *run.within}
        for line in laid_out(source)
        for run in line.runs
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# Title\n## Next", ["Title", "Next"]),
        ("Title\n===\ntext", ["Title", "text"]),
        ("a **b** *c* ~~d~~ `e`", ["a b c d e"]),
        ("line\nnext\n\n\n\nlast", ["line", "next", "", "last"]),
        ("hard\\\nbreak", ["hard", "break"]),
        ("* a\n* b", ["- a", "- b"]),
        ("3. a\n4. b", ["3. a", "4. b"]),
        ("1) a\n   - b\n     c", ["1) a", "   - b", "     c"]),
        ("-\n- b", ["-", "- b"]),
        ("- - a", ["- - a"]),
        ("- a\n\n  b", ["- a", "", "  b"]),
        ("> a\n> > b\n\nc", ["│ a", "│ │ b", "", "c"]),
        ("> a\n>\n> b", ["│ a", "│", "│ b"]),
        ("> a\n\n> b", ["│ a", "", "│ b"]),
        ("```py\nx = 1\n\n```\nend", ["py", "x = 1", "", "", "end"]),
        ("```\nnever closed", ["", "never closed"]),
        ("    indented\n    code", ["indented", "code"]),
        ("[text](http://a.b)", ["text (http://a.b)"]),
        ("<http://a.b> <me@a.b>", ["http://a.b me@a.b"]),
        ("![alt](pic.png)", ["alt (pic.png)"]),
        ("[t][1]\n\n[1]: http://a.b", ["t (http://a.b)"]),
        ("a <b>bold</b> &amp; [/x] [bold]", ["a <b>bold</b> & [/x] [bold]"]),
        ("\\(x_1\\) and \\[y\\] but \\*", ["\\(x_1\\) and \\[y\\] but *"]),
        ("__init__ snake_case_name", ["__init__ snake_case_name"]),
        ("[1]: http://nothing.seen", ["[1]: http://nothing.seen"]),
        ("", [""]),
        ("a\r\nb\rc", ["a", "b␍c"]),
        ("\x1b[2J `\x07` &#x9b;", ["␛[2J ␇ �"]),
        ("`a\tb`", ["a    b"]),
    ],
)
def test_blocks_and_inline_text(source: str, expected: list[str]) -> None:
    assert rows(source) == expected


def test_a_rule_is_as_wide_as_there_is_room() -> None:
    assert rows("a\n\n---", 12) == ["a", "", "─" * 12]
    assert rows("- ***", 12) == ["- " + "─" * 10]


def test_later_rows_of_items_and_quotes_stand_under_their_text() -> None:
    assert rows("- one two three", 9) == ["- one two", "  three"]
    assert rows("> - one two three", 11) == ["│ - one two", "│   three"]


def test_east_asian_text_fills_its_rows() -> None:
    *full, _ = rows("光线进入水滴后会发生折射，然后在背面反射。" * 9, 30)
    assert full
    assert all(cell_len(row) >= 28 for row in full)


def test_nothing_is_left_out_however_deep_it_stands() -> None:
    for depth in (1, 10, 25, 30, 40, 200):
        source = "\n".join(f"{'  ' * level}- item{level}" for level in range(depth))
        shown = "\n".join(rows(source, 500))
        assert all(f"item{level}" in shown for level in range(depth))
        shown = "\n".join(rows(f"{'> ' * depth}quoted", 500))
        assert "quoted" in shown


TABLE = "|name|n|\n|:-|-:|\n|**a**|1|\n|漢字|1234|\n|❤️|2|"


def test_tables_are_aligned_by_cells() -> None:
    assert rows(TABLE) == [
        "name │    n",
        "─────┼─────",
        "a    │    1",
        "漢字 │ 1234",
        "❤    │    2",
    ]
    assert rows("|abc|\n|:-:|\n|x|") == ["abc", "───", " x"]


def test_wide_cells_wrap_in_their_column() -> None:
    table = "|a|text|\n|-|-|\n|1|one two three four|"
    assert rows(table, 14) == ["a │ text", "──┼───────────", "1 │ one two", "  │ three four"]


def test_a_table_without_room_for_its_columns_is_text() -> None:
    table = "|first|second|third|\n|-|-|-|\n|1|2|3|"
    assert rows(table, 12) == ["first │", "second │", "third", "─" * 12, "1 │ 2 │ 3"]


def test_a_table_can_stand_in_a_list() -> None:
    assert rows("- |a|b|\n  |-|-|\n  |1|2|") == ["- a │ b", "  ──┼──", "  1 │ 2"]


def test_marks() -> None:
    found = marked("# T *e*\n**b *both*** [l](http://a) `c` ~~s~~\n\n> - q")
    assert found["T "] == {Mark.HEADING, Mark.TITLE}
    assert found["e"] == {Mark.HEADING, Mark.TITLE, Mark.EMPHASIS}
    assert found["both"] == {Mark.BOLD, Mark.EMPHASIS}
    assert found["l"] == {Mark.LINK}
    assert found[" (http://a)"] == {Mark.URL}
    assert found["c"] == {Mark.CODE}
    assert found["s"] == {Mark.STRIKE}
    assert found["- "] == {Mark.BULLET}
    assert found["│ "] == {Mark.SIGN}


def test_code_is_coloured_where_its_language_is_known() -> None:
    found = marked('```python\ndef f(): return "s", 1  # c\n```')
    assert found["def"] == {Mark.FENCE, Mark.KEYWORD}
    assert found["f"] == {Mark.FENCE, Mark.NAME}
    assert found['"s"'] == {Mark.FENCE, Mark.STRING}
    assert found["1"] == {Mark.FENCE, Mark.NUMBER}
    assert found["# c"] == {Mark.FENCE, Mark.COMMENT}
    assert found["python"] == {Mark.FENCE, Mark.LANGUAGE}


@pytest.mark.parametrize("language", ["", "nothing-known", "python title='x'", "\x1b"])
def test_code_is_drawn_as_it_is_in_any_language(language: str) -> None:
    code = "\n\n  if x:\n\treturn '\\n'  \n"
    assert rows(f"```{language}\n{code}```")[1:-1] == ["", "", "  if x:", "    return '\\n'"]


def test_code_too_long_to_colour_stays_plain() -> None:
    long = "x = 1 " * LONGEST_LINE
    marks = {run.mark for line in laid_out(f"```python\n{long}\n```") for run in line.runs}
    assert marks == {Mark.LANGUAGE, Mark.FENCE}


WORDS = ("a", "漢", "❤️", " ", "*", "**", "_", "`", "~~", "[", "](b)", "[a]: b", "|", "#", "\\")
ODD = ("<a>", "&lt;", "\t", "\r", "\x1b", "\u202e", "\u0301", "    ")
BLOCKS = ("", "\n", "> ", "- ", "  ", "1. ", "```\n", "```py\n", "|-|-|\n", "---\n", "===\n", "# ")
BITS = st.sampled_from([*WORDS, *ODD, *(f"\n{block}" for block in BLOCKS)])


@given(st.lists(BITS, max_size=40), st.integers(1, 50))
def test_the_lines_sources_are_the_source_and_rows_never_too_wide(
    bits: list[str], width: int
) -> None:
    source = "".join(bits)
    lines = laid_out(source, width)
    assert "\n".join(line.source for line in lines) == source
    for line in lines:
        runs = line.runs
        assert "".join(line.drawn[run.start : run.end] for run in runs) == line.drawn
        assert all(ord(character) >= 32 for character in line.drawn)
        for number, (start, end) in enumerate(line.rows):
            room = width - (len(line.hang) if number else 0)
            assert cell_len(line.drawn[start:end].rstrip()) <= max(room, 2) or "│" in line.drawn
