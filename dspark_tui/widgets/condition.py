"""An engine's condition in one line."""

from __future__ import annotations

from pathlib import PurePath

from textual.content import Content

from dspark_tui.batch.lane_table import slots_busy
from dspark_tui.batch.layout import PAUSED
from dspark_tui.engines.link import EngineLink
from dspark_tui.text.foreign import drawable
from engine.events import EngineStatus, Phase, Progress

STAGES = {
    "fetch": "fetching the model",
    "convert": "preparing the model",
    "load": "loading the model",
    "warm up": "warming up",
}


def running(link: EngineLink) -> Content:
    """Which model, how busy, and what is wrong if something is."""
    engine = link.live.engine
    model = engine.model
    if link.batch_hidden:
        name = PurePath(model.id).name if model else ""
        return Content(drawable(f"{name}   {slots_busy(link.live)}   by our stopwatch"))
    running = sum(r.phase in (Phase.PREFILL, Phase.DECODE) for r in engine.requests.values())
    queued = sum(r.phase is Phase.QUEUED for r in engine.requests.values())
    name = drawable(f"{model.id}  {model.precision}") if model else "engine"
    parts = [name, f"{running} of {engine.slots} slots busy"]
    if queued:
        parts.append(f"{queued} queued")
    line = Content("   ".join(parts))
    if engine.paused:
        line = Content.assemble(line, "   ", (PAUSED, "bold $warning"))
    if engine.status is EngineStatus.STUCK:
        line = Content.assemble(line, "   ", (drawable(engine.error or ""), "bold $error"))
    return line


def starting(link: EngineLink) -> Content:
    """How far it is, or why there is none."""
    engine = link.live.engine
    if engine.status is EngineStatus.FAILED:
        error = drawable(engine.error or "")
        return Content.assemble(("engine failed: ", "bold $error"), error)
    if link.problem:
        what = "engine lost" if engine.model is not None else "no engine"
        problem = f": {drawable(link.problem)}, {link.remedy}"
        return Content.assemble((what, "bold $warning"), problem)
    if engine.progress is not None:
        return Content(drawable(_in_words(engine.progress)))
    return Content("starting the engine" if link.worker else "asking the server")


def _in_words(progress: Progress) -> str:
    stage = STAGES.get(progress.stage, progress.stage)
    if not progress.total:
        return f"{stage}  {progress.detail}"
    return f"{stage}  {progress.percent}%  {progress.detail}"
