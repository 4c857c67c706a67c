"""The top line: which model, how busy, and what is wrong if something is."""

from __future__ import annotations

from pathlib import PurePath

from textual.content import Content
from textual.widgets import Static

from dspark_tui.actions import Context
from dspark_tui.batch.lane_table import slots_busy
from dspark_tui.batch.layout import PAUSED
from dspark_tui.engines.link import EngineLink
from dspark_tui.keymap import Keymap
from dspark_tui.text.foreign import drawable
from engine.events import EngineStatus, Phase, Progress

STAGES = {
    "fetch": "fetching the model",
    "convert": "preparing the model",
    "load": "loading the model",
    "warm up": "warming up",
}
HIDDEN = "blind: several engines, which is which shows after the vote"


class StatusBar(Static):
    """Calm: it changes only when the engine's condition does."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        leave, restart = (
            keymap.name("leave", Context.COMPOSER),
            keymap.name("restart", Context.PANES),
        )
        self._remedy = f"{leave}, {restart} tries again"
        self._shown = ""

    def refresh_status(self, link: EngineLink | None) -> None:
        """Show the condition of that engine; None: which one it is must not be seen."""
        condition = Content(HIDDEN) if link is None else self._condition(link)
        if link is not None and link.name:
            condition = Content.assemble((drawable(link.name), "bold"), "  ", condition)
        if condition.plain != self._shown:
            self._shown = condition.plain
            self.update(Content.assemble((" dspark-tui ", "bold $primary"), "  ", condition))

    def _condition(self, link: EngineLink) -> Content:
        if link.failed:
            return Content.assemble(
                ("engine failed", "bold $error"), f" ({self._remedy}): {drawable(link.problem)}"
            )
        return _running(link) if link.ready.is_set() else _starting(link)


def _running(link: EngineLink) -> Content:
    engine = link.live.engine
    model = engine.model
    if link.batch_hidden:
        name = PurePath(model.id).name if model else ""
        seen = f"{slots_busy(link.live)}   by our stopwatch"
        return Content(drawable(f"{name}   {seen}   at {link.where}"))
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


def _starting(link: EngineLink) -> Content:
    engine = link.live.engine
    if engine.status is EngineStatus.FAILED:
        error = drawable(engine.error or "")
        return Content.assemble(("engine failed: ", "bold $error"), error)
    if link.problem:
        return Content.assemble(
            ("engine lost: ", "bold $warning"), drawable(link.problem), f", {link.remedy}"
        )
    if engine.progress is not None:
        return Content(drawable(_in_words(engine.progress)))
    return Content("starting the engine" if link.worker else "asking the server")


def _in_words(progress: Progress) -> str:
    stage = STAGES.get(progress.stage, progress.stage)
    if not progress.total:
        return f"{stage}  {progress.detail}"
    return f"{stage}  {progress.percent}%  {progress.detail}"
