"""Actions on the active pane's engine, and on the requests it serves, whoever asked."""

from __future__ import annotations

import time

from dspark_tui.engines.client_errors import ClientError
from dspark_tui.screens.desk import Desk
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.batch_panel import Mode
from dspark_tui.widgets.lane_picker import LanePicker


class Engining(Desk):
    """Also the panel that shows the engine's batch is in here."""

    panel: LanePicker
    panel_mode: Mode | None

    def fit(self) -> None:
        """Give every part of the screen the room it has."""
        raise NotImplementedError

    def action_panel(self) -> None:
        self.panel_mode = self.panel.mode.next
        self.fit()

    def action_lanes(self) -> None:
        if self.panel.mode is Mode.OFF:
            self.panel_mode = Mode.SMALL
            self.fit()
        if self.panel.mode is Mode.OFF:
            self.say("no room for the batch panel here")
        else:
            self.set_focus(self.panel)

    def action_pick_lane(self, step: int) -> None:
        self.panel.pick(step)

    def action_cancel_lane(self) -> None:
        """End the chosen request. One of a pane's is stopped as the pane would stop it."""
        lane = self.panel.picked_lane
        if lane is None:
            self.say("no request is chosen; Up and Down choose one of those there are")
            return
        who = drawable(f"r{lane.number} {lane.label}".rstrip())
        run = next((run for run in self.runs if run.request_id == lane.id), None)
        if lane.request.finished is not None:
            self.say(f"{who} has ended already")
        elif run is not None:
            run.stop()
            self.say(f"cancelled {who}")
        elif self.link.batch_hidden:
            self.say(f"{who} can only be stopped where it was asked")
        else:
            self.run_worker(self.link.client.cancel(lane.id), exit_on_error=False)
            self.say(f"cancelled {who}")

    def action_export_lanes(self) -> None:
        """Write the panel's requests as CSV."""
        from dspark_tui.batch.lane_rows import COLUMNS, lane_rows
        from dspark_tui.screens.csv_export import export

        if lanes := self.link.live.lanes:
            export(self, "requests", COLUMNS, lane_rows(lanes, self.link.now(), time.time()))
        else:
            self.say("no requests yet")

    def action_pause(self) -> None:
        if not self.link.ready.is_set():
            self.say("the engine is not ready")
        elif self.link.batch_hidden:
            self.say(f"{self.link.where} can't be paused from here")
        else:
            self.run_worker(self._pause(), group="pause", exclusive=True, exit_on_error=False)

    async def _pause(self) -> None:
        paused = not self.link.live.engine.paused
        try:
            await self.link.client.pause(paused)
        except ClientError as error:
            self.say(drawable(str(error)))
            return
        held = "paused: running requests go on, new ones wait"
        self.say(held if paused else "no longer paused")

    def action_restart(self) -> None:
        if self.link.worker is None:
            self.say(f"{self.link.where} is not ours to restart")
        else:
            self.link.restart()
