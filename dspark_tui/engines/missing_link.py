"""The link to an engine that can't be had."""

from __future__ import annotations

from dspark_tui.engines.link import EngineLink
from engine.events import EngineStatus, Status


class MissingLink(EngineLink):
    """Stands for an engine that can't be had, so that a pane bound to it says so and keeps it."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(lambda _: [], name)
        self.problem = problem
        self.live.apply(Status(0.0, EngineStatus.FAILED, error=problem))

    @property
    def failed(self) -> bool:
        return True

    async def start(self) -> None:
        self.on_change()

    def restart(self) -> None:
        self.on_change()
