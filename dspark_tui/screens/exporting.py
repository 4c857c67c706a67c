"""Writing what was said, and how the requests went, into files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dspark_tui.conversation.session import Conversation
from dspark_tui.paths import tilde
from dspark_tui.screens.desk import Desk
from dspark_tui.storage.workspace import every_turn


class Exporting(Desk):
    """Each asks for the file's name, whose ending says what kind of file it is."""

    def action_export(self) -> None:
        pane = self.session.active
        self._export_said([pane], f"pane-{pane.number}")

    def action_export_session(self) -> None:
        self._export_said(self.session.panes, "session")

    def action_export_requests(self) -> None:
        from dspark_tui.storage.export import requests_text

        panes, runs = self.session.panes, self.runs
        if len(runs) or any(turn.requests for pane in panes for turn in every_turn(pane)):
            self._ask("requests", "csv", lambda suffix: requests_text(panes, runs, suffix))
        else:
            self.say("no requests to export yet")

    def _export_said(self, panes: Sequence[Conversation], what: str) -> None:
        from dspark_tui.storage.export import messages_text

        if not any(pane.starts for pane in panes):
            self.say("nothing to export: no prompt was sent here yet")
        elif not self.refused_while_blind():
            self._ask(what, "md", lambda suffix: messages_text(panes, suffix))

    def _ask(self, what: str, ending: str, text: Callable[[str], str]) -> None:
        """text: what to write, for a file's ending."""
        from dspark_tui.screens.ask import Ask

        name = time.strftime(f"{what}-%Y%m%d-%H%M%S.{ending}")

        async def export(answer: str) -> str:
            typed = answer.strip()
            return await self._export(Path(typed).expanduser(), text) if typed else ""

        title = f"export {what} to .md, .csv or .jsonl"
        self.app.push_screen(Ask(title, tilde(Path.cwd() / name), attempt=export))

    async def _export(self, path: Path, text: Callable[[str], str]) -> str:
        """Returns why it could not be written, or ""."""
        from dspark_tui.storage.export import ExportError, write

        try:
            await asyncio.to_thread(write, path, text(path.suffix))
        except ExportError as error:
            return str(error)
        self.notify(f"written to {tilde(path)}", timeout=5, markup=False)
        return ""
