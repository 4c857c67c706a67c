"""What finished answers look like in the workbench, and what is copied of them."""

from __future__ import annotations

from dspark_tui.appearance import glyphs
from tests.tui.conftest import Bench, OpenBench, panes, slow
from tests.tui.stage import lines


def drawn(bench: Bench) -> str:
    return "\n".join(line.rstrip() for line in lines(bench.pane(1).transcript))


async def test_markdown_is_set_in_type_once_an_answer_is_over(open_bench: OpenBench) -> None:
    async with open_bench(slow(), settings=panes(1, max_tokens=100_000)) as bench:
        await bench.send("why?")
        await bench.until(lambda: "## Why a circle" in drawn(bench))
        await bench.press("escape", "s")
        await bench.until_idle()
        await bench.until(lambda: "\nWhy a circle" in drawn(bench))
        assert "## Why a circle" in bench.shown(1)
        assert "##" not in drawn(bench)


async def test_thoughts_fold_open_and_are_not_copied_with_the_answer(
    open_bench: OpenBench,
) -> None:
    async with open_bench(settings=panes(1, max_tokens=4)) as bench:
        await bench.send("#think")
        await bench.until_idle()
        head = f"{glyphs.DEFAULT.folded} thought, 3 words   T shows it\n\nYes, round."
        await bench.until(lambda: head in drawn(bench))
        await bench.press("escape", "T")
        await bench.until(lambda: "\n  Is it round?\n" in drawn(bench))
        await bench.press("y")
        await bench.until(lambda: bench.app.clipboard == "Yes, **round**.")
        await bench.press("ctrl+y")
        await bench.until(lambda: "Is it round?" in bench.app.clipboard)
