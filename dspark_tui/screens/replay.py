"""A recording in the real batch panel: play, pause, scrub."""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.figures import BurstFigures
from dspark_tui.batch.player import Player
from dspark_tui.widgets.batch_panel import BatchPanel, Mode
from dspark_tui.widgets.key_lines import KeyLines
from dspark_tui.widgets.line import Line

FRAME_PERIOD = 0.1
STEPS = 50
"""Presses of an arrow key from one end of the recording to the other."""
LEAST_STEP = 0.1
"""Seconds such a press moves at least."""

KEYS = (
    ("Space", "pause"),
    ("Left Right", "scrub"),
    ("Home End", "ends"),
    ("[ ]", "burst"),
    ("- +", "speed"),
    ("q", "quit"),
)


class Replay(Screen[None]):
    """Draws the player's state; time passes for it by the real clock."""

    BINDINGS: ClassVar = [
        Binding("space,k", "pause"),
        Binding("left,h", "scrub(-1)"),
        Binding("right,l", "scrub(1)"),
        Binding("home,g", "first"),
        Binding("end,G", "last"),
        Binding("left_square_bracket", "burst(-1)"),
        Binding("right_square_bracket", "burst(1)"),
        Binding("plus,up,equals_sign", "faster(2.0)"),
        Binding("minus,down", "faster(0.5)"),
        Binding("q,escape,ctrl+c,ctrl+q", "app.quit"),
    ]

    def __init__(
        self, title: str, player: Player, bursts: list[BurstFigures], glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._heading, self._player, self._bursts, self._glyphs = title, player, bursts, glyphs
        self._panel = BatchPanel(glyphs=glyphs)
        self._position = Line(id="position")
        self._verdict = Line(id="verdict")
        self._shown: tuple[object, ...] = ()
        self._latest = 0.0

    def compose(self) -> ComposeResult:
        yield Static(self._heading, id="heading", markup=False)
        yield self._panel
        yield self._verdict
        yield self._position
        yield KeyLines(KEYS, id="keys")

    def on_mount(self) -> None:
        self._panel.mode = Mode.FULL
        self._latest = time.monotonic()
        self.set_interval(FRAME_PERIOD, self._tick)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _tick(self) -> None:
        now = time.monotonic()
        self._player.advance(now - self._latest)
        self._latest = now
        player = self._player
        if (player.now, player.playing, player.speed) != self._shown:
            self._draw()

    def _draw(self) -> None:
        player = self._player
        self._shown = (player.now, player.playing, player.speed)
        self._panel.show(player.state, player.now)
        self._position.update(self._position_line())
        self._verdict.update(self._burst_line())

    def _position_line(self) -> str:
        player, signs = self._player, self._glyphs
        place = f"{player.now - player.start:.1f} of {player.length:.1f} s"
        state = "playing" if player.playing else "at the end" if player.at_end else "paused"
        words = f"{state} {place}   speed {player.speed:g}   "
        columns = max(0, self._position.size.width - len(words))
        share = (player.now - player.start) / player.length if player.length else 1.0
        done = round(share * columns)
        return words + signs.bar_done * done + signs.bar_left * (columns - done)

    def _burst_line(self) -> str:
        """The whole burst's figures, wherever in it the player is."""
        index = self._burst_index()
        if index < 0:
            return "before the first burst" if self._bursts else "nothing was sent"
        burst = self._bursts[index]
        parts = [f"burst {index + 1} of {len(self._bursts)}", burst.size]
        if (total := burst.aggregate) is not None:
            parts.append(
                f"{total.tokens:,} tok {self._glyphs.divide} {total.seconds:.2f} s = "
                f"{total.rate:.1f} tok/s"
            )
        if burst.verdict is not None:
            parts.append(f"{burst.verdict.name}: {burst.verdict.main.sentence}")
        return "   ".join(parts)

    def _burst_index(self) -> int:
        """Of the burst the player is in or after, -1 before the first one."""
        return bisect_right([burst.start for burst in self._bursts], self._player.now) - 1

    # ---- actions

    def action_pause(self) -> None:
        self._player.toggle()
        self._draw()

    def action_scrub(self, direction: int) -> None:
        self._seek(self._player.now + direction * max(LEAST_STEP, self._player.length / STEPS))

    def action_first(self) -> None:
        self._seek(self._player.start)

    def action_last(self) -> None:
        self._seek(self._player.end)

    def action_burst(self, direction: int) -> None:
        """To the next burst's start; backwards first to this one's."""
        starts = [burst.start for burst in self._bursts]
        now = self._player.now
        later = [start for start in starts if start > now]
        earlier = [start for start in starts if start < now - LEAST_STEP * self._player.speed]
        if direction > 0 and later:
            self._seek(later[0])
        elif direction < 0:
            self._seek(earlier[-1] if earlier else self._player.start)

    def action_faster(self, factor: float) -> None:
        self._player.faster(factor)
        self._draw()

    def _seek(self, time: float) -> None:
        self._player.seek(time)
        self._draw()
