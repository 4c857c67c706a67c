"""Screens as they were reviewed, at the common sizes."""

from __future__ import annotations

import pytest

from dspark_tui.appearance.glyphs import DEFAULT
from dspark_tui.appearance.theming import load_themes
from dspark_tui.batch.figures import burst_figures
from dspark_tui.batch.player import Player
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.session import Target
from dspark_tui.paths import Paths
from dspark_tui.replay_app import ReplayApp
from dspark_tui.screens.compare import Compare
from dspark_tui.widgets.diff_view import DiffView
from engine.events import EngineStatus, Event, Prefill, Progress, Status
from engine.types import FinishReason
from tests.tui.burst import NOW, START, Life, burst, events_of, snapshot
from tests.tui.conftest import OpenBench, panes
from tests.tui.golden import check, screen_styles
from tests.tui.still import Said, StillBench, still

SIZES = [(200, 50), (120, 35), (80, 24), (60, 20)]
Size = tuple[int, int]

LEFT = """\
A rainbow needs sun behind you and rain in front.

Light enters a drop, bends, reflects off its far side and bends again on its way out. Red leaves \
at about 42 degrees, violet at 40, so each colour reaches you from drops of its own.

- **Sun**: low, behind you
- **Rain**: in front
"""
RIGHT = """\
A rainbow needs the sun behind you and rain ahead.

Light enters a drop, slows, bends, reflects once and bends again on its way out. Red leaves at \
about 42 degrees, violet at 40: 光线 of each colour reaches you from its own drops.

- **Sun**: low, behind you
- **Rain**: ahead [/b]

No two people see the same one.
"""


@pytest.mark.parametrize("size", SIZES)
async def test_golden_diff(open_bench: OpenBench, size: Size) -> None:
    async with open_bench(size=size, settings=panes(2)) as bench:
        names = ("1 control", "2 hot")
        await bench.app.push_screen(Compare(LEFT, RIGHT, names, DEFAULT))
        view = bench.app.screen.query_one(DiffView)
        await bench.until(lambda: view.virtual_size.height)
        await bench.pilot.pause()
        await check(bench.pilot, "diff")


# ---- first run

FIRST_STEPS = {
    "fetch": Progress("fetch", "SmolLM2-135M-Instruct.Q4_1.gguf", 41_300_000, 93_000_000, "bytes"),
    "load": Progress("load", "weights", 162, 272, "tensors"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stage", FIRST_STEPS)
async def test_golden_first_run(
    monkeypatch: pytest.MonkeyPatch, paths: Paths, stage: str, size: Size
) -> None:
    events = [Status(START, EngineStatus.LOADING, FIRST_STEPS[stage])]
    async with still(monkeypatch, paths, events, size=size) as bench:
        await bench.type("Explain how rainbows form.")
        await check(bench.pilot, f"first-run-{stage}")


# ---- eight panes live

EIGHT = (
    PaneParams(name="control", temperature=0.0),
    PaneParams(name="terse", temperature=0.0, system="Answer in one sentence."),
    PaneParams(name="hot", temperature=1.3, top_p=0.9, seed=7),
    PaneParams(name="日本語", temperature=0.4),
    PaneParams(name="poet", temperature=0.9, system="You are a poet."),
    PaneParams(name="thinker", temperature=0.6),
    PaneParams(name="coder", temperature=0.0, max_tokens=100),
    PaneParams(name="long", temperature=0.0, system="Use these notes. " * 40),
)
TEXTS = {
    "r1": "## Why a bow\nLight enters a **droplet**, bends, reflects off the far side and bends "
    "again on the way out.\n\n- red leaves at `42` degrees\n- violet at `40`\n\nEvery drop sends "
    "one colour to your eye, so that",
    "r2": "A bow is **sunlight** sorted by rain:\n\n| colour | angle |\n|---|---|\n| red | 42° |\n"
    "| violet | 40° |",
    "r3": "Picture a *billion* tiny mirrors ☺️ each one lit from behind you; the rain is a crowd "
    "and [every/] member [b]waves[/b] one flag",
    "r4": "太陽の光が水滴に入ると屈折し、水滴の裏側で反射して、出るときにもう一度屈折します。"
    "色ごとに曲がる角度が",
    "r5": "O bow of seven breaths,\nthe rain has learned",
    "r6": "<think>\nThe person wants the physics. Refraction first, then dispersion.\n</think>\n\n"
    "Two things happen in a drop: **refraction** and **dispersion**. The first",
    "r7": "Snell's law, as a function:\n\n```python\ndef bend(angle: float, n: float) -> float:\n"
    "    return asin(sin(angle) / n)  # n is 1.33\n```\n\nCall it twice",
    "r9": "The air scatters blue",
}
LIVES = (
    Life("r1", "1 control", 0.0, 0.0, 0.5, None),
    Life("r2", "2 terse", 0.0, 0.0, 0.6, 6.7),
    Life("r3", "3 hot", 0.0, 0.0, 0.7, None),
    Life("r4", "4 日本語", 0.0, 0.0, 0.8, None),
    Life("r5", "5 poet", 0.0, 0.0, 0.9, 9.0, reason=FinishReason.CANCELLED),
    Life("r6", "6 thinker", 0.0, 0.0, 1.0, None),
    Life("r7", "7 coder", 0.0, 6.7, 7.0, 12.0, reason=FinishReason.LENGTH, slot=1),
    Life("r8", "8 long", 0.0, 9.0, None, None, prompt=3912, slot=4),
    Life("r9", "2 terse", 13.0, 13.0, 13.3, None, slot=1),
    Life("r10", "7 coder", 14.0, None, None, None),
)


def eight_requests() -> list[Event]:
    """Six slots: two prompts wait for the first ends, a third one still does."""
    reading = Prefill(START + 14.4, "r8", 1536, 3912, 50.0)
    return [snapshot(slots=6), *events_of(list(LIVES)), reading]


async def say(bench: StillBench, prompt: str, seconds: float, target: int | None = None) -> None:
    """Send it at START + seconds, to all panes or one, and wait until all was heard of it."""
    bench.clock.now = START + seconds
    session = bench.workbench.session
    session.target = Target.ALL if target is None else Target.THIS
    if target is not None:
        bench.workbench.activate(bench.conversation(target))
    await bench.send(prompt)
    ending = {life.source for life in LIVES if life.end is not None and life.queued == seconds}
    await bench.until(lambda: not any(run.pane.label in ending for run in bench.workbench.runs))


async def eight_panes(bench: StillBench) -> None:
    await say(bench, "Explain how rainbows form.", 0.0)
    await say(bench, "And why is the sky blue?", 13.0, 2)
    await say(bench, "Now in Rust.", 14.0, 7)
    bench.clock.now = NOW
    bench.workbench.session.target = Target.ALL
    bench.workbench.activate(bench.conversation(1))
    await bench.type("Where must the sun be?")


@pytest.mark.parametrize("size", SIZES)
async def test_golden_eight_panes(
    monkeypatch: pytest.MonkeyPatch, paths: Paths, size: Size
) -> None:
    said = [Said(life, TEXTS.get(life.id, "")) for life in LIVES]
    settings = Settings(panes=EIGHT)
    async with still(
        monkeypatch, paths, eight_requests(), said=said, size=size, settings=settings
    ) as bench:
        await eight_panes(bench)
        await check(bench.pilot, "eight-panes")


# ---- themes

THEMES = sorted(theme.name for theme in load_themes()[0])


@pytest.mark.parametrize("theme", THEMES)
async def test_golden_theme(monkeypatch: pytest.MonkeyPatch, paths: Paths, theme: str) -> None:
    said = [Said(life, TEXTS.get(life.id, "")) for life in LIVES]
    settings = Settings(panes=EIGHT, theme=theme)
    async with still(
        monkeypatch, paths, eight_requests(), said=said, size=(120, 35), settings=settings
    ) as bench:
        await eight_panes(bench)
        await check(bench.pilot, f"theme-{theme}", screen_styles)


# ---- a recording


@pytest.mark.parametrize("size", SIZES)
async def test_golden_replay(paths: Paths, size: Size) -> None:
    player = Player(burst(), 1.0)
    player.playing = False
    player.seek(START + 12.0)
    app = ReplayApp("run.jsonl", player, burst_figures(burst()), Settings(), paths)
    async with app.run_test(size=size) as pilot:
        await check(pilot, "replay")
