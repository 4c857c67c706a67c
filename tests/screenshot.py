"""Pictures of a real run for the README: `python -m tests.screenshot FOLDER [COLUMNSxROWS]`.

The workbench with its own worker and the embedded model, driven by keys: a request alone, a
broadcast to four panes of different settings with a second prompt that joins them mid-flight
(screenshot.svg), two of the answers word by word (diff.svg), an experiment half-way
(experiment.svg). Nothing of it is kept among your sessions.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input

from dspark_tui import cli, config
from dspark_tui.app import DsparkApp
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import Target
from dspark_tui.paths import Paths
from dspark_tui.screens.compare import Compare
from dspark_tui.screens.experiment import ExperimentForm
from dspark_tui.screens.experiment_grid import ExperimentGrid
from engine.events import Phase
from engine.proof.verdict import Name

PANES = (
    PaneParams(name="control", temperature=0.0, max_tokens=140),
    PaneParams(name="terse", temperature=0.0, max_tokens=40, system="Answer in one sentence."),
    PaneParams(name="warm", temperature=0.8, seed=7, max_tokens=140),
    PaneParams(name="hot", temperature=1.3, seed=7, top_p=0.9, max_tokens=140),
)
EXPERIMENT = """
[inputs]
combine = "product"
lists = { country = ["France", "Japan", "Kenya"], style = ["a teacher", "a poet", "a pirate"] }

[[prompt]]
name = "plain"
text = "Name the capital of {{country}}."

[[prompt]]
name = "role"
text = "You are {{style}}. Name the capital of {{country}} in one sentence."

[defaults]
max_tokens = 40

[[params]]
temperature = 0.0

[[params]]
temperature = 1.0
seed = 7

[[assert]]
contains = "{{country}}"
"""


async def main(folder: Path, size: tuple[int, int]) -> None:
    folder = folder.absolute()
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):  # results are written there
        here = Path(scratch)
        paths = replace(Paths.of_user(), state=here / "state.toml", sessions=here / "sessions.db")
        app = cli.build_app(config.Settings(panes=PANES), paths, [], "")
        async with app.run_test(size=size) as pilot:
            photographer = Photographer(app, pilot, folder)
            await photographer.batch()
            await photographer.diff()
            await photographer.experiment(here / "capitals.toml")
        await app.close()


@dataclass
class Photographer:
    """Drives the workbench to what is worth a picture."""

    app: DsparkApp
    pilot: Pilot[None]
    folder: Path

    async def batch(self) -> None:
        """A burst judged against a request that ran alone, with a newcomer in it."""
        link, session = self.app.workbench.link, self.app.workbench.session
        await _until(link.ready.is_set)
        alone = [{"role": "user", "content": "What is a rainbow?"}]
        async for _ in link.client.chat(alone, {"max_tokens": 80, "temperature": 0.0}, "alone"):
            pass
        session.target = Target.ALL
        await self._type("Explain how rainbows form.")
        live = link.live
        await _until(lambda: any(lane.request.phase is Phase.FINISHED for lane in live.lanes))
        session.target = Target.THIS
        await self.pilot.press("escape", "2", "i")
        await self._type("And why is the sky blue?")
        await _until(lambda: len(live.lanes) == len(PANES) + 1 and live.lanes[-1].request.tokens)
        await _until(lambda: live.verdict and live.verdict.name is not Name.INCONCLUSIVE)
        await self._save("screenshot")
        await _until(lambda: not self.app.workbench.runs)

    async def diff(self) -> None:
        await self.pilot.press("escape", "1", "m", "3", "d")
        await _until(lambda: isinstance(self.app.screen, Compare))
        await self._save("diff")
        await self.pilot.press("escape")

    async def experiment(self, file: Path) -> None:
        file.write_text(EXPERIMENT, encoding="utf-8")
        await self.pilot.press("f5")
        await _until(lambda: isinstance(self.app.screen, ExperimentForm))
        self.app.screen.query_one("#file", Input).value = str(file)
        await self.pilot.pause(1)
        await self.pilot.press("enter")
        await _until(lambda: isinstance(self.app.screen, ExperimentGrid))
        trial = self.app.workbench.trial
        assert trial is not None
        rows = trial.table.path
        await _until(lambda: rows.exists() and len(rows.read_text().splitlines()) > 20)
        await self._save("experiment")

    async def _type(self, text: str) -> None:
        keys = ("space" if letter == " " else letter for letter in text)
        await self.pilot.press(*keys, "enter")

    async def _save(self, name: str) -> None:
        await self.pilot.pause(0.5)  # until what happened is drawn
        target = self.folder / f"{name}.svg"
        target.write_text(self.app.export_screenshot(title="dspark-tui"), encoding="utf-8")
        print(f"{target}: {target.stat().st_size} bytes")


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    columns, rows = (sys.argv[2] if len(sys.argv) > 2 else "150x42").split("x")
    asyncio.run(main(Path(sys.argv[1]), (int(columns), int(rows))))
