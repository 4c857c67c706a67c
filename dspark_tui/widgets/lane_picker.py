"""The batch panel with a cursor: choose a request in it, whoever asked, and act on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual import events

from dspark_tui.actions import Context
from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.keymap import Keymap
from dspark_tui.widgets.batch_panel import BatchPanel
from dspark_tui.widgets.keys import act_on_key

if TYPE_CHECKING:
    from dspark_tui.batch.lanes import Lane


class LanePicker(BatchPanel, can_focus=True):
    """The panel with the focus acts on the request that is marked in it.

    KEYS: the screen's actions meanwhile; all other keys mean what they mean in the panes.
    """

    KEYS: ClassVar[Mapping[str, str]] = {
        "up": "pick_lane(-1)",
        "k": "pick_lane(-1)",
        "down": "pick_lane(1)",
        "j": "pick_lane(1)",
        "x": "cancel_lane()",
        "delete": "cancel_lane()",
        "w": "export_lanes()",
        "p": "pause()",
        "escape": "leave()",
    }
    HINTS: ClassVar = (
        ("Up Down", "choose"),
        ("x", "cancel"),
        ("w", "CSV"),
        ("p", "pause"),
        ("Esc", "panes"),
    )

    def __init__(self, keymap: Keymap, *, glyphs: Glyphs) -> None:
        super().__init__(glyphs=glyphs)
        self._calls = {**keymap.calls(Context.PANES), **self.KEYS}

    async def on_key(self, event: events.Key) -> None:
        await act_on_key(self, event, self._calls)

    def on_focus(self) -> None:
        self.pick(0)

    def on_blur(self) -> None:
        self._mark("")

    @property
    def picked_lane(self) -> Lane | None:
        """The chosen request, even if it has ended meanwhile: the mark never jumps to another."""
        return next((lane for lane in self.lanes if lane.id == self.picked), None)

    def pick(self, step: int) -> None:
        """Choose the request `step` places on among those that wait or run."""
        open_lanes = [lane for lane in self.lanes if lane.request.finished is None]
        if not open_lanes:
            return
        chosen = self.picked_lane
        if chosen in open_lanes:
            at = open_lanes.index(chosen) + step
        elif chosen is not None:
            later = [n for n, lane in enumerate(open_lanes) if lane.number > chosen.number]
            at = later[0] if later else len(open_lanes) - 1
        else:
            at = 0
        self._mark(open_lanes[min(max(at, 0), len(open_lanes) - 1)].id)

    def _mark(self, request: str) -> None:
        self.picked = request
        self.lay_out()
