"""A picture of a real run: `python -m tests.screenshot FILE.svg [COLUMNSxROWS]`.

The workbench with its own worker and the embedded model, driven by keys: a broadcast to four panes
of different settings, then a second prompt to the pane that finished first, so that one request is
admitted while the others are mid-flight.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from dspark_tui import cli, config
from dspark_tui.app import DsparkApp
from dspark_tui.params import PaneParams
from dspark_tui.paths import Paths
from dspark_tui.session import Target
from engine.events import Phase

PANES = (
    PaneParams(name="control", temperature=0.0, max_tokens=140),
    PaneParams(name="terse", temperature=0.0, max_tokens=32, system="Answer in one sentence."),
    PaneParams(name="warm", temperature=0.8, seed=7, max_tokens=140),
    PaneParams(name="hot", temperature=1.3, seed=7, top_p=0.9, max_tokens=140),
)


async def main(target: Path, size: tuple[int, int]) -> None:
    app = cli.build_app(config.Settings(panes=PANES), Paths.of_user(), [], "")
    engine, session = app.workbench.link.live.engine, app.workbench.session
    session.target = Target.ALL
    async with app.run_test(size=size) as pilot:
        await _until(lambda: engine.model)
        await _type(pilot, "Explain how rainbows form.")
        await _until(lambda: any(r.phase is Phase.FINISHED for r in engine.requests.values()))
        session.target = Target.THIS
        await pilot.press("escape", "2", "i")
        await _type(pilot, "And why is the sky blue?")
        await _until(lambda: sum(r.tokens >= 8 for r in engine.requests.values()) == len(PANES) + 1)
        _save(app, target)
    await app.close()


async def _type(pilot: Pilot[None], text: str) -> None:
    await pilot.press(*("space" if letter == " " else letter for letter in text), "enter")


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.05)


def _save(app: DsparkApp, target: Path) -> None:
    target.write_text(app.export_screenshot(title="dspark-tui"), encoding="utf-8")
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    columns, rows = (sys.argv[2] if len(sys.argv) > 2 else "150x42").split("x")
    asyncio.run(main(Path(sys.argv[1]), (int(columns), int(rows))))
