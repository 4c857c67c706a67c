"""The workbench's own worker with a drafter from the settings: a real model, a real checkpoint."""

from __future__ import annotations

from pathlib import Path

from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.engines.engines import place_of
from dspark_tui.paths import Paths
from dspark_tui.widgets.batch_panel import BatchPanel
from tests.engine.dspark_checkpoints import NATIVE, random_weights, write
from tests.tiny import tiny_llama
from tests.tui.conftest import Bench, OpenBench


async def test_a_drafter_of_the_settings_drafts_and_the_panel_tells_how_it_fares(
    open_bench: OpenBench, paths: Paths, tmp_path: Path
) -> None:
    model = tiny_llama(tmp_path / "model", layers=4, ends=False)
    drafter = write(tmp_path / "drafter", NATIVE, random_weights(NATIVE))
    settings = Settings(
        model=str(model),
        speculate="dspark",
        drafter=str(drafter),
        drafter_bits=8,
        confidence=0.01,
        max_draft=3,
        panel="large",
        panes=(PaneParams(temperature=0.0, max_tokens=20),) * 2,
    )
    place = place_of("", settings, paths)
    async with open_bench(size=(160, 40), settings=settings, place=place) as bench:
        await bench.send("hello")
        await bench.until(lambda: "% accepted" in panel_of(bench))
        await bench.until_idle()
        assert bench.turn(1).answer == bench.turn(2).answer != ""
        told = bench.link.live.engine.speculation
        assert told is not None
        assert told.drafter == "dspark"


def panel_of(bench: Bench) -> str:
    panel = bench.workbench.query_one(BatchPanel)
    return "\n".join(panel.render_line(y).text for y in range(panel.size.height))
