"""What a running bench shows: lanes that fill on a terminal, a line for each round elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.commands.bench_lanes import lane_rows
from engine.proof.probes import Kind, Plan, Round
from engine.proof.traffic import timings

FRAMES = 8
"""A second."""
BESIDE_LANES = 24
"""Columns a row needs for its name and figures."""


class Progress:
    """Told of each stage and round; draws on stderr so that stdout stays the report's."""

    def __init__(self, console: Console, plan: Plan, glyphs: Glyphs) -> None:
        self._console, self._glyphs = console, glyphs
        self._rounds = plan.repeat * len(plan.widths) + len(plan.probes)
        self._repeats = plan.repeat
        self._begun = 0
        self._stage = ""
        self._round: Round | None = None
        self._live = Live(
            console=console, transient=True, refresh_per_second=FRAMES, get_renderable=self.drawn
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def stage(self, text: str) -> None:
        """Something that takes time before the first round."""
        self._stage, self._round = text, None
        if not self._console.is_terminal:
            self._say(text)

    def round(self, round_: Round) -> None:
        """A round begins, or is done."""
        self._round = round_
        self._begun += not round_.done
        if round_.done and not self._console.is_terminal:
            self._say(f"{self._title(round_)}: {_outcome(round_)}")

    def drawn(self) -> RenderableType:
        """The frame of this moment."""
        if self._round is None:
            return Text(self._stage, style="dim")
        columns = max(10, self._console.width - BESIDE_LANES)
        rows = lane_rows(self._round, time.monotonic(), columns, self._glyphs)
        return Group(Text(self._title(self._round), style="bold"), *rows)

    def _title(self, round_: Round) -> str:
        repeat = f" ({round_.repeat} of {self._repeats})" if round_.kind is Kind.SWEEP else ""
        return f"round {self._begun} of {self._rounds}, {round_.title}{repeat}"

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def _outcome(round_: Round) -> str:
    ended = timings(round_.records)
    if not ended:
        return round_.records[0].error or "no request came to its end"
    last = max(timing.seconds for timing in ended)
    return f"{len(ended)} of {round_.width} requests ended, the last after {last:.2f} s"
