"""A broadcast in figures: a line for each pane, and what they add up to."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.batch.live import Aggregate
from dspark_tui.comparison.broadcasts import Broadcast, Broadcasts
from dspark_tui.conversation.session import Session
from dspark_tui.conversation.votes import tally
from dspark_tui.engines.engines import Engines
from dspark_tui.screens.broadcast_table import CSV_COLUMNS, csv_rows, table
from dspark_tui.screens.csv_export import export
from dspark_tui.screens.dialog import Dialog
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.line import Line

PERIOD = 0.25


class BroadcastFigures(Dialog[None]):
    """The latest one first; the figures grow while the answers do."""

    CSS_PATH: ClassVar = [*Dialog.CSS_PATH, "../styles/comparing.tcss"]
    BINDINGS: ClassVar = [
        Binding("escape,q,B,ctrl+c", "dismiss(None)"),
        Binding("left_square_bracket,left", "step(-1)"),
        Binding("right_square_bracket,right", "step(1)"),
        Binding("w", "export"),
    ]
    KEY_HELP: ClassVar = (
        ("[ Left", "the prompt before"),
        ("] Right", "the next prompt"),
        ("w", "write this one's figures as CSV, beside where you started"),
        ("Up Down PgUp PgDn", "scroll"),
        ("Esc q B ^C", "close"),
    )

    def __init__(
        self, broadcasts: Broadcasts, session: Session, engines: Engines, glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._broadcasts, self._session, self._engines = broadcasts, session, engines
        self._glyphs = glyphs
        self._place = len(broadcasts) - 1
        self._prompt = Line(id="prompt")
        self._table = Line(id="table")
        self._total = Line(id="total")
        self._verdict = Line(id="verdict")
        self._votes = Line(id="votes")

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="sheet") as sheet:
            sheet.border_subtitle = "[ ] other prompts   w CSV   Esc closes"
            yield self._prompt
            yield self._table
            yield self._total
            yield self._verdict
            yield self._votes

    def on_mount(self) -> None:
        self.set_interval(PERIOD, self._draw)
        self.call_after_refresh(self._draw)

    @property
    def _broadcast(self) -> Broadcast:
        return self._broadcasts[self._place]

    def _draw(self) -> None:
        broadcast = self._broadcast
        title = Content(f"prompt {self._place + 1} of {len(self._broadcasts)} to several panes")
        self.query_one(VerticalScroll).border_title = title
        prompt = " ".join(broadcast.prompt.split())
        self._prompt.update(f"{self._glyphs.prompt} {drawable(prompt)}")
        self._table.update(table(broadcast, self._table.size.width, self._glyphs.dash))
        self._total.update(_together(broadcast.aggregate, self._glyphs))
        self._verdict.update(self._judgement())
        scores = [f"  {score}" for score in tally(self._session.votes)]
        self._votes.update("\n".join(["votes so far", *scores]) if scores else "no votes yet")

    def _judgement(self) -> str:
        if len(self._broadcast.engines) > 1:
            return "no verdict: it went to several engines"
        (engine,) = self._broadcast.engines
        live = self._engines.of(engine).live
        found, over = self._broadcast.verdict(live.solo, live.engine.slots), self._broadcast.over
        if found is None:
            return f"no verdict{': no two answers began together' if over else ' yet'}"
        if not over:
            return f"{found.name} so far; the verdict comes when the last answer ends"
        return f"{found.name}: {found.main.sentence}"

    def action_step(self, step: int) -> None:
        self._place = min(len(self._broadcasts) - 1, max(0, self._place + step))
        self._draw()

    def action_export(self) -> None:
        export(self, "broadcast", CSV_COLUMNS, csv_rows(self._broadcast))


def _together(total: Aggregate | None, glyphs: Glyphs) -> Content:
    """The honest aggregate, with what it is made of."""
    if total is None:
        return Content("no token yet")
    made_of = f"{total.tokens:,} tok {glyphs.divide} {total.seconds:.2f} s"
    return Content.assemble("together  ", (f"{total.rate:.1f} tok/s", "bold"), f" = {made_of}")
