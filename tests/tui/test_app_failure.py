"""A fault in the workbench itself."""

from __future__ import annotations

import logging

import pytest
from textual.pilot import Pilot

from dspark_tui import themed
from dspark_tui.app import Start
from dspark_tui.paths import Paths
from dspark_tui.screens.workbench import Workbench
from tests.tui.conftest import bench_app, panes


async def test_it_ends_with_one_line_and_the_traceback_goes_to_the_log(
    paths: Paths,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: Workbench) -> None:
        raise ZeroDivisionError("[/x] in the sheet")

    monkeypatch.setattr(Workbench, "action_help", broken)
    monkeypatch.setattr(themed, "KEY_PATIENCE", 0.1)  # nobody deals with the key to its end
    app = bench_app(Start(panes(), paths), "http://127.0.0.1:9")

    async def press(pilot: Pilot[None]) -> None:
        await pilot.press("f1")

    with caplog.at_level(logging.CRITICAL):
        await app.run_async(headless=True, auto_pilot=press)
    await app.close()
    assert app.failure == "ZeroDivisionError: [/x] in the sheet"
    assert "Traceback" in caplog.text
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
