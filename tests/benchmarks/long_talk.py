"""Long Markdown answers, and a workbench to show them in: for benchmarks of the screen."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, islice
from pathlib import Path

from textual.pilot import Pilot

from dspark_tui.app import DsparkApp, Start
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.engines.address import Address, Server
from dspark_tui.engines.engines import Engines
from dspark_tui.paths import Paths
from dspark_tui.storage.workspaces import Workspaces
from dspark_tui.widgets.pane import Pane
from dspark_tui.widgets.transcript import Transcript

SIZE = (200, 50)
CHARACTERS_PER_TOKEN = 4

SECTION = """\
## Part {n}: why a circle
Light enters a **droplet**, bends, reflects off the *far side* and bends again on the way out;
`angle({n})` is what matters, and every drop with that angle to the eye lights up.

1. The first bend spreads the colours
   - red bends least, which is why it ends up on the outside of the bow
   - violet bends most
2. The reflection loses light — that’s why a second bow is dimmer

| colour | angle | note |
|:-------|------:|------|
| red | 42.{n}° | the outer edge |
| violet | 40.{n}° | 内側の端 |

```python
def angle(n: float = {n}) -> float:
    return 4 * asin(n / 2) - 2 * asin(n)  # the extremum
```

> Nobody sees the same bow as you do.

"""


def talk(tokens: int) -> str:
    """Markdown of about so many tokens."""
    length = tokens * CHARACTERS_PER_TOKEN
    sections = -(-length // len(SECTION))
    return "".join(SECTION.format(n=n) for n in islice(count(), sections))[:length]


def say(transcript: Transcript, text: str, pieces: int = 1) -> None:
    """A prompt and its answer, which comes in equal pieces."""
    transcript.add_user("Explain how rainbows form.")
    transcript.begin_answer()
    size = -(-len(text) // pieces)
    for start in range(0, len(text), size):
        transcript.append(text[start : start + size])
    transcript.end_answer("9 tok  1.0 s")


@asynccontextmanager
async def workbench(count: int) -> AsyncIterator[tuple[DsparkApp, list[Pane], Pilot[None]]]:
    """A workbench with so many panes and no engine, drawn but not written to any terminal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = Paths(*(folder / file for file in ("config", "state", "log", "engine", "sessions")))
        engine = Server(Address.parse("http://127.0.0.1:9"))
        settings = Settings(panes=(PaneParams(),) * count)
        engines = Engines(lambda _: engine)
        app = DsparkApp(Start(settings, paths), engines, Workspaces(paths.sessions))
        async with app.run_test(size=SIZE) as pilot:
            shown = list(app.workbench.query(Pane))
            for pane in shown:
                pane.add_class("-spoken")
            await pilot.pause()
            yield app, shown, pilot
        await app.close()


def paint(pane: Pane) -> None:
    """Render every row that is in view."""
    transcript = pane.transcript
    transcript.render_lines(transcript.size.region)
