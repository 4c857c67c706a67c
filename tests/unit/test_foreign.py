"""Foreign text: what of it reaches a terminal, and what is edited and sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark_tui.text.foreign import drawable, harmless

FAMILY = "👩\u200d👩\u200d👧 👍🏽 ❤️"


def test_control_codes_are_pictures() -> None:
    for shown in (drawable, harmless):
        assert shown("\x1b[31mred\x07\x7f\x9b2J") == "␛[31mred␇␡␦2J"
        assert shown("\ud800") == "␦"
        assert shown("[/x] a[/]b") == "[/x] a[/]b"


def test_what_is_drawn_is_one_line_of_cells_all_terminals_count_alike() -> None:
    assert drawable("a\tb\nc") == "a    b␊c"
    assert drawable("a\u2028b\u202ec\u200d") == "a bc"
    assert "\u200d" not in drawable(FAMILY)


def test_what_is_edited_keeps_its_lines_tabs_and_joined_emoji() -> None:
    assert harmless(f"a\tb\rc\r\nd\n{FAMILY}") == f"a\tb\nc\nd\n{FAMILY}"


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    for shown in (drawable(text), harmless(text)):
        assert not {c for c in shown if ord(c) < 32 or 0x7F <= ord(c) < 0xA0} - {"\n", "\t"}
        shown.encode()  # a lone surrogate would raise
    assert harmless(harmless(text)) == harmless(text)
