"""--ascii: everything the workbench draws by itself is 7-bit, in every state and dialog."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import TurnStatus
from tests.tui.conftest import ENDLESS, Bench, OpenBench, fast, panes, slow

LONG = PaneParams(name="a name that is too long for any title", max_tokens=20, system="s" * 90)


def other_signs(bench: Bench) -> str:
    """What is on screen and not 7-bit."""
    drawn = re.sub(r"<style.*?</style>|<title.*?</title>", "", bench.app.export_screenshot(),
                   flags=re.DOTALL)  # fmt: skip
    text = "".join(html.unescape(part) for part in re.findall(r">([^<]+)<", drawn))
    return "".join(sorted({sign for sign in text if not sign.isascii()} - {"\xa0"}))


@pytest.mark.parametrize("size", [(120, 35), (80, 24), (60, 20), (50, 15), (19, 5)])
async def test_at_every_size_and_in_every_state(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    settings = replace(panes(1), panes=(PaneParams(max_tokens=60), LONG, LONG), ascii=True)
    async with open_bench(fast(slots=1), size=size, settings=settings) as bench:
        assert other_signs(bench) == ""
        await bench.send("one line\nand " + "many words " * 20)
        await bench.until(lambda: bench.turn(1).answer)
        assert other_signs(bench) == ""
        await bench.press("escape", "2", "i")
        await bench.send("#fail")
        await bench.until_idle()
        await bench.pilot.pause()
        assert other_signs(bench) == ""
        await bench.press("escape", *["k"] * 5, "f3")
        await bench.pilot.pause()
        assert other_signs(bench) == ""


@pytest.mark.parametrize("keys", [["f1"], ["f2"], ["ctrl+p"], ["ctrl+p", "z"], ["escape", "Y"]])
@pytest.mark.parametrize("size", [(120, 35), (60, 20)])
async def test_in_every_dialog(
    open_bench: OpenBench, keys: list[str], size: tuple[int, int]
) -> None:
    settings = replace(panes(2, max_tokens=70), ascii=True)
    async with open_bench(size=size, settings=settings) as bench:
        await bench.send("#code")
        await bench.until_idle()
        await bench.press(*keys)
        await bench.pilot.pause(0.3)
        assert bench.app.screen is not bench.workbench
        assert other_signs(bench) == ""


async def test_when_it_asks(open_bench: OpenBench) -> None:
    async with open_bench(slow(), settings=replace(ENDLESS, ascii=True)) as bench:
        await bench.send("run on")
        await bench.until(lambda: bench.turn(1).status is TurnStatus.RUNNING)
        await bench.press("ctrl+q")
        assert other_signs(bench) == ""
