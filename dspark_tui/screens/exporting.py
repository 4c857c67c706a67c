"""Writing what was said, and how the requests went, into files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from dspark_tui.paths import tilde
from dspark_tui.screens.ask import Ask
from dspark_tui.screens.desk import Desk


class Exporting(Desk):
    """Each asks for the file's name, whose ending says what kind of file it is."""

    def action_export(self) -> None:
        from dspark_tui.storage.export import messages_text

        pane = self.session.active
        self._ask(f"pane-{pane.number}", "md", lambda suffix: messages_text([pane], suffix))

    def action_export_session(self) -> None:
        from dspark_tui.storage.export import messages_text

        panes = self.session.panes
        self._ask("session", "md", lambda suffix: messages_text(panes, suffix))

    def action_export_requests(self) -> None:
        from dspark_tui.storage.export import requests_text

        panes, runs = self.session.panes, self.runs
        self._ask("requests", "csv", lambda suffix: requests_text(panes, runs, suffix))

    def _ask(self, what: str, ending: str, text: Callable[[str], str]) -> None:
        """text: what to write, for a file's ending."""
        name = time.strftime(f"{what}-%Y%m%d-%H%M%S.{ending}")

        def export(answer: str | None) -> None:
            if answer and answer.strip():
                path = Path(answer.strip()).expanduser()
                self.run_worker(self._export(path, text), exit_on_error=False)

        title = f"export {what} to .md, .csv or .jsonl"
        self.app.push_screen(Ask(title, tilde(Path.cwd() / name)), export)

    async def _export(self, path: Path, text: Callable[[str], str]) -> None:
        from dspark_tui.storage.export import ExportError, write

        try:
            await asyncio.to_thread(write, path, text(path.suffix))
        except ExportError as error:
            self.notify(str(error), severity="error", timeout=8, markup=False)
        else:
            self.notify(f"written to {tilde(path)}", timeout=5, markup=False)
