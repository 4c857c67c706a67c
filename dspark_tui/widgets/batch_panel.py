"""The live batch: lanes on one time axis, slots, running width, honest numbers. One widget."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from dspark_tui.appearance.glyphs import DEFAULT, Glyphs
from dspark_tui.batch.parts import STYLES, Row

if TYPE_CHECKING:
    from dspark_tui.batch.lanes import Lane
    from dspark_tui.batch.live import LiveState


class Mode(StrEnum):
    """How tall the panel is."""

    OFF = "off"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"
    FULL = "full"

    @property
    def next(self) -> Mode:
        modes = list(Mode)
        return modes[(modes.index(self) + 1) % len(modes)]


HEIGHTS: dict[Mode, int | str] = {
    Mode.OFF: 0,
    Mode.SMALL: 5,
    Mode.MEDIUM: 11,
    Mode.LARGE: 15,
    Mode.FULL: "1fr",
}
"""Lines with the border; SMALL has none."""


class BatchPanel(Widget):
    """Draws a LiveState. A row is painted again only when it reads differently.

    state: None, and nothing is drawn, until `show` is called. picked: the request whose lane is
    marked.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"batch-panel--{style}" for style in STYLES}
    DEFAULT_CSS = """
    BatchPanel {
        border: round $role-pane-blur;
        border-title-color: $role-dim;
        border-subtitle-color: $role-dim;
        padding: 0 1;
        &.-small { border: none; }
        & > .batch-panel--dim { color: $role-dim; }
        & > .batch-panel--picked { color: $role-strong; text-style: bold reverse; }
        & > .batch-panel--strong { color: $role-strong; text-style: bold; }
        & > .batch-panel--rule { color: $role-pane-blur; }
        & > .batch-panel--warning { color: $role-warning; }
        & > .batch-panel--error { color: $role-error; }
        & > .batch-panel--width { color: $role-lane-width; }
        & > .batch-panel--queued { color: $role-lane-queued; }
        & > .batch-panel--prefill { color: $role-lane-prefill; }
        & > .batch-panel--sent { color: $role-lane-prefill; }
        & > .batch-panel--decode { color: $role-lane-decode; }
        & > .batch-panel--stall { color: $role-lane-stall; }
        & > .batch-panel--done { color: $role-lane-done; text-style: bold; }
        & > .batch-panel--length { color: $role-lane-done; }
        & > .batch-panel--stopped { color: $role-lane-stopped; text-style: bold; }
        & > .batch-panel--failed { color: $role-lane-failed; text-style: bold; }
    }
    """

    mode: reactive[Mode] = reactive(Mode.MEDIUM, init=False)

    def __init__(self, *, glyphs: Glyphs = DEFAULT, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self.state: LiveState | None = None
        self.picked = ""
        self._engine = ""
        self._now = 0.0
        self._drawn_version = -1
        self._rows: list[Row] = []
        self._strips: dict[int, Strip] = {}
        self._styles: dict[str, Style] = {}

    def show(self, state: LiveState, now: float, engine: str = "") -> None:
        """Draw `state` as of engine time `now`. Call it a few times a second, or on events.

        engine: its name, where there are several.
        """
        if state is self.state and state.version == self._drawn_version and not state.active:
            return
        self.state, self._now, self._drawn_version = state, now, state.version
        self._engine = engine
        self.lay_out()

    @property
    def lanes(self) -> Sequence[Lane]:
        """Those there are to choose from."""
        return self.state.lanes if self.state is not None else ()

    def on_mount(self) -> None:
        self._fit()

    def on_resize(self) -> None:
        self.lay_out()

    def watch_mode(self) -> None:
        self._fit()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()

    def render_line(self, y: int) -> Strip:
        if y not in self._strips:
            row = self._rows[y] if y < len(self._rows) else ()
            strip = Strip([Segment(part.text, self._style(part.style)) for part in row])
            self._strips[y] = strip.adjust_cell_length(self.size.width, self.rich_style)
        return self._strips[y]

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self.get_component_rich_style(f"batch-panel--{name}")
        return self._styles[name]

    def _fit(self) -> None:
        self.display = self.mode is not Mode.OFF
        self.set_class(self.mode is Mode.SMALL, "-small")
        self.styles.height = HEIGHTS[self.mode]

    def lay_out(self) -> None:
        """Work out all rows and have those that changed painted."""
        width, height = self.size
        if self.state is None or not self.display or not width or not height:
            return
        from dspark_tui.batch.layout import layout, title  # the engine's events with it

        rows = layout(self.state, self._now, width, height, self._glyphs, self.picked)
        changed = [y for y, (old, new) in enumerate(zip_longest(self._rows, rows)) if old != new]
        self._rows = rows
        for y in changed:
            self._strips.pop(y, None)
            self.refresh(Region(0, y, width, 1))
        if (heading := title(self.state, self._engine)) != self.border_title:
            self.border_title = heading
