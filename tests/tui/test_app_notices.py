"""Notices in quick succession: a few at once, and none of them for long."""

from __future__ import annotations

import pytest
from textual.notifications import Notification
from textual.widgets._toast import Toast

from dspark_tui.notices import MOST
from dspark_tui.paths import Paths
from tests.tui.conftest import TIME_LEFT, OpenBench, panes


async def test_keys_in_quick_succession_leave_a_few_notices_which_go(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(settings=panes(1)) as bench:

        def toasts() -> list[str]:
            return [str(toast.render()) for toast in bench.app.screen.query(Toast)]

        await bench.press("escape", *["f4"] * 7, "s", "s")
        await bench.until(lambda: "nothing to stop here" in toasts() and len(toasts()) <= MOST)
        assert toasts().count("nothing to stop here") == 1
        monkeypatch.setattr(Notification, "time_left", TIME_LEFT)  # their time runs from now on
        bench.app.notify("this stays", timeout=1000)
        await bench.until(lambda: toasts() == ["this stays"])


async def test_many_broken_themes_are_one_notice(open_bench: OpenBench, paths: Paths) -> None:
    folder = paths.config.parent / "themes"
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / f"mine{number}.toml").write_text("schema = 7")
    async with open_bench(settings=panes(1)) as bench:
        await bench.until(lambda: any("mine0" in notice for notice in bench.notices()))
        (notice,) = bench.notices()
        assert notice.count("schema must be") == 3
        assert notice.endswith("\nand 2 more; dspark-tui doctor lists them")
