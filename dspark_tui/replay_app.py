"""The full-screen player of a recording."""

from __future__ import annotations

from typing import ClassVar

from dspark_tui.appearance import glyphs
from dspark_tui.batch.figures import BurstFigures
from dspark_tui.batch.player import Player
from dspark_tui.config import Settings
from dspark_tui.paths import Paths
from dspark_tui.screens.replay import Replay
from dspark_tui.state import UiState
from dspark_tui.themed import ThemedApp


class ReplayApp(ThemedApp):
    """Looks as the workbench does: the same theme and signs."""

    CSS_PATH: ClassVar = ["styles/replay.tcss"]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        title: str,
        player: Player,
        bursts: list[BurstFigures],
        settings: Settings,
        paths: Paths,
    ) -> None:
        theme = settings.theme or UiState.load(paths.state).theme
        super().__init__(paths, theme, settings.ascii)
        signs = glyphs.ASCII if settings.ascii else glyphs.DEFAULT
        self.replay = Replay(title, player, bursts, signs)

    def on_mount(self) -> None:
        self.push_screen(self.replay)
