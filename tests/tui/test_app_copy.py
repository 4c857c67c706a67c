"""What is copied is the source text, and the toast says how."""

from __future__ import annotations

from dspark_tui.screens.pick_code import PickCode
from tests.tui.conftest import Bench, OpenBench, panes

LOOP = "for n in range(3):\n    print(n * n)"


async def answered(bench: Bench, prompt: str) -> None:
    await bench.send(prompt)
    await bench.until_idle()
    await bench.press("escape")


async def test_a_copied_answer_is_its_source_without_borders_or_soft_breaks(
    open_bench: OpenBench,
) -> None:
    async with open_bench(size=(60, 24), settings=panes(1, max_tokens=60)) as bench:
        await answered(bench, "hello")
        await bench.press("y")
        await bench.until(lambda: bench.notices())
        assert bench.app.clipboard == bench.turn(1).answer.rstrip("\n")
        assert "**droplet**, bends, reflects off the far side" in bench.app.clipboard
        (said,) = bench.notices()
        assert f"sent {len(bench.app.clipboard)} characters to the terminal (OSC 52)" in said


async def test_one_code_block_is_copied_at_once(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1, max_tokens=14)) as bench:
        await answered(bench, "#code")
        await bench.press("Y")
        await bench.until(lambda: bench.app.clipboard)
        assert bench.app.clipboard.rstrip() in LOOP
        assert bench.app.clipboard.startswith("for n")


async def test_a_digit_picks_one_of_several_blocks(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1, max_tokens=70)) as bench:
        await answered(bench, "#code")
        await bench.press("Y")
        assert isinstance(bench.app.screen, PickCode)
        await bench.press("9")
        assert isinstance(bench.app.screen, PickCode)
        await bench.press("2")
        await bench.until(lambda: bench.app.clipboard)
        assert bench.app.clipboard == LOOP
        await bench.press("Y", "down", "enter")
        assert bench.app.screen is bench.workbench
        await bench.press("Y", "escape")
        assert bench.app.screen is bench.workbench


async def test_an_answer_without_code_says_so(open_bench: OpenBench) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await answered(bench, "hello")
        await bench.press("Y")
        assert bench.notices() == ["no code in the latest answer"]
        assert bench.app.clipboard == ""
