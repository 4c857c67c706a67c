"""Large pastes in the composer: one unit each, drawn as a label, sent exactly."""

from __future__ import annotations

import random

from msgspec.structs import replace
from textual import events

from dspark_tui.conversation.pastes import CHIP, FIRST, Draft
from dspark_tui.screens.paste_view import PasteView
from dspark_tui.widgets.transcript import Transcript
from tests.tui.conftest import Bench, OpenBench, panes

LONG = "one\ttwo [/red]\n" * 200 + "the end"
WIDE = "x" * 2_500


async def paste(bench: Bench, text: str) -> None:
    bench.app.post_message(events.Paste(text))
    await bench.pilot.pause()


def shown(bench: Bench) -> str:
    """The composer's rows as they are drawn."""
    composer = bench.composer
    rows = (composer.render_line(y).text for y in range(composer.wrapped_document.height))
    return "\n".join(row.rstrip() for row in rows)


async def test_a_large_paste_is_a_label_and_is_sent_exactly(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press(*"ab")
        await paste(bench, LONG)
        await bench.press("c")
        await bench.until(lambda: shown(bench) == "ab[pasted 1: 201 lines, 3 kB]c")
        await bench.press("enter")
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.turn(1).prompt == f"ab{LONG}c"
        assert bench.composer.text == ""


async def test_backspace_takes_the_whole_paste_and_nothing_else(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press(*"ab")
        await paste(bench, "x" * 2_048 + "!")
        await bench.press("backspace")
        assert bench.composer.text == "ab"
        await bench.press("ctrl+z")
        assert bench.composer.prompt == "ab" + "x" * 2_048 + "!"
        await bench.press("left", "left", "delete")
        assert bench.composer.prompt == "a" + "x" * 2_048 + "!"
        await bench.press("right", "left", "delete")
        assert bench.composer.text == "a"


async def test_the_caret_and_words_pass_a_paste_in_one_step(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("a")
        await paste(bench, WIDE)
        end = bench.composer.cursor_location
        await bench.press("left")
        assert bench.composer.cursor_location == (0, 1)
        await bench.press("right")
        assert bench.composer.cursor_location == end
        await bench.press("ctrl+w")
        assert bench.composer.text == "a"


async def test_one_key_shows_what_was_pasted_and_undo_hides_it_again(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press(*"ab")
        await paste(bench, LONG)
        await bench.press("ctrl+o")
        assert bench.composer.text == f"ab{LONG}"
        await bench.press("ctrl+z")
        assert shown(bench) == "ab[pasted 1: 201 lines, 3 kB]"
        await bench.press("escape", "full_stop")
        assert bench.composer.text == f"ab{LONG}"
        await bench.press("full_stop")
        assert bench.notices() == ["no paste to show"]


async def test_the_paste_at_the_caret_is_shown_else_the_last_one(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await paste(bench, WIDE)
        await bench.press("space")
        await paste(bench, LONG)
        await bench.press("home", "ctrl+o")
        assert bench.composer.text.startswith(f"{WIDE} ")
        assert bench.composer.prompt == f"{WIDE} {LONG}"
        await bench.press("ctrl+home", "ctrl+o")
        assert bench.composer.text == f"{WIDE} {LONG}"


async def test_equal_pastes_are_separate(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await paste(bench, WIDE)
        await paste(bench, WIDE)
        assert shown(bench).count("[pasted") == 2
        await bench.press("backspace")
        assert bench.composer.prompt == WIDE


async def test_what_looks_like_a_paste_is_text(open_bench: OpenBench) -> None:
    label = "[pasted 1: 201 lines, 3 kB]"
    async with open_bench() as bench:
        await paste(bench, LONG)
        await paste(bench, label)
        assert shown(bench) == label * 2
        await bench.press("backspace")
        assert bench.composer.prompt == LONG + label[:-1]


async def test_a_paste_s_own_signs_in_a_text_from_elsewhere_are_sent_as_they_are(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await paste(bench, WIDE)
        chip = bench.composer.text
        await paste(bench, chip)
        assert bench.composer.prompt == WIDE + chip
        assert shown(bench) == "[pasted 1: 1 line, 2 kB][pasted 2: 1 line, 30 B]"


async def test_copies_of_a_paste_are_its_text(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("a")
        await paste(bench, LONG)
        await bench.press("shift+left", "ctrl+x")
        assert bench.app.clipboard == LONG
        assert bench.composer.text == "a"
        await bench.press("ctrl+v", "ctrl+x")
        assert bench.app.clipboard == f"a{LONG}"
        await bench.press("ctrl+z")
        assert bench.composer.prompt == f"a{LONG}"
        await bench.press("f7", "ctrl+c")
        assert bench.app.clipboard == f"a{LONG}"


async def test_with_0_nothing_becomes_a_label(open_bench: OpenBench) -> None:
    settings = replace(panes(), paste_collapse_over=0)
    async with open_bench(settings=settings) as bench:
        await paste(bench, LONG)
        assert bench.composer.text == LONG


async def test_a_sent_paste_is_recalled_as_one_with_the_words_around_it(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("a")
        await paste(bench, LONG)
        await bench.press("b", "ctrl+c", "up")
        assert shown(bench) == "a[pasted 1: 201 lines, 3 kB]b"
        assert bench.composer.prompt == f"a{LONG}b"


async def test_a_draft_with_pastes_is_plain_data_and_comes_back(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("a")
        await paste(bench, LONG)
        await bench.press("b", "left")
        saved = bench.composer.draft.dumps()
        caret = bench.composer.cursor_location
        await bench.press("ctrl+c")
        bench.composer.restore(Draft.loads(saved))
        assert shown(bench) == "a[pasted 1: 201 lines, 3 kB]b"
        assert bench.composer.prompt == f"a{LONG}b"
        assert bench.composer.cursor_location == caret


async def test_a_paste_that_is_too_long_to_edit_is_shown_to_be_read(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("a")
        await paste(bench, "[/x] first " + "word " * 200_000)
        draft = bench.composer.draft
        await bench.press("ctrl+o")
        view = bench.app.screen
        assert isinstance(view, PasteView)
        text = view.query_one(Transcript)
        await bench.until(lambda: "[/x] first word" in text.source_text())
        assert "900,011 more characters" in [line.source for line in text._text.lines]
        await bench.until(lambda: text.scroll_offset.y == 0)
        await bench.press("pagedown")
        await bench.until(lambda: text.scroll_offset.y > 0)
        await bench.press("end", "home", "ctrl+o")
        assert bench.app.screen is bench.workbench
        assert bench.composer.draft == draft


async def test_a_megabyte_on_one_line_is_edited_around_like_a_word(open_bench: OpenBench) -> None:
    """Every key would cost a wrap of the whole line if it stood in the text."""
    line = "word " * 200_000
    async with open_bench() as bench:
        await bench.press("a")
        await paste(bench, line)
        await bench.press("b", "left", "left", "c")
        assert bench.composer.prompt == f"ac{line}b"
        assert len(bench.composer.text) < 60


async def test_no_edit_leaves_a_part_of_a_paste(open_bench: OpenBench) -> None:
    """Random steps: what is left of a label would be text nobody typed."""
    chance = random.Random(11)
    async with open_bench() as bench:
        box = bench.composer
        moves = [box.action_cursor_left, box.action_cursor_right, box.action_cursor_line_start,
                 box.action_cursor_word_left, box.action_cursor_word_right]  # fmt: skip
        changes = [box.action_delete_left, box.action_delete_right, box.action_delete_word_left,
                   box.action_delete_word_right, box.action_delete_to_end_of_line,
                   box.action_undo, box.action_redo, box.expand_chip]  # fmt: skip
        for step in range(400):
            match chance.randrange(5):
                case 0:
                    text = chance.choice(["a", " b", "\n", f"{step}{WIDE}", f"{step}{LONG}"])
                    box.insert(text, maintain_selection_offset=False)
                case 1 | 2:
                    chance.choice(moves)(chance.random() < 0.4)
                case _:
                    chance.choice(changes)()
            assert all(character < chr(FIRST) for character in CHIP.sub("", box.text))
            assert box.draft.prompt == box.prompt
