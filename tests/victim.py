"""A workbench that talks without end until it is killed, and what its database must hold then.

    python -m tests.victim LOG

It writes a line for each look at itself, so that whoever kills it knows what there was to lose, and
how many of its looks were on disk by then, so that he knows what must not be lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspark_tui.app import DsparkApp, Start
from dspark_tui.config import Settings
from dspark_tui.conversation.params import PaneParams
from dspark_tui.engines.engines import Engines
from dspark_tui.paths import Paths
from dspark_tui.storage.journal import Journal
from dspark_tui.storage.workspaces import Workspaces
from tests.processes import children

LOOK_PERIOD = 0.05
ENGINE = [sys.executable, "-m", "tests.tui.scripted_engine", "--parent-pipe", "--rate", "80"]
PANES = tuple(PaneParams(max_tokens=tokens) for tokens in (20, 60, 400))
PATIENCE = 60.0


@dataclass
class Looks:
    """taken: so many. noted: so many before the journal last noted what has changed."""

    taken: int = 0
    noted: int = 0

    def watch(self) -> None:
        note = Journal.note

        def noted(journal: Journal, *details: Any) -> None:
            note(journal, *details)
            self.noted = self.taken

        Journal.note = noted  # type: ignore[method-assign]


async def talk(log: Path) -> None:
    engines = Engines(lambda _: lambda socket: [*ENGINE, "--socket", str(socket)])
    paths = Paths.of_user()
    workspaces = Workspaces(paths.sessions)
    start = Start(Settings(panes=PANES), paths)
    app = DsparkApp(start, engines, workspaces, workspaces.latest())
    looks, sent = Looks(), 0
    looks.watch()
    async with app.run_test(size=(100, 30)):
        with log.open("a") as file:
            while True:
                for pane in app.workbench.session.panes:
                    if app.workbench.runs.of(pane) is None:
                        app.workbench.runs.send(pane, f"question {sent} #cjk")
                        sent += 1
                look = {
                    turn.id: [len(turn.answer), turn.status]
                    for pane in app.workbench.session.panes
                    for turn in pane.turns[-2:]
                }
                looks.taken += 1
                noted = looks.noted
                await app.workbench.workspaces.saver.ask(lambda _: None)
                file.write(json.dumps([time.time(), look, noted]) + "\n")
                file.flush()
                await asyncio.sleep(LOOK_PERIOD)


@dataclass
class Loss:
    """What a kill cost, in seconds before it. text: the latest look whose text is not all there.
    finished: the latest at a turn that was over and is not. kept: looks that were on disk. broken:
    those of them that are not all there."""

    text: float = 0.0
    finished: float = 0.0
    kept: int = 0
    broken: int = 0


@dataclass
class Murder:
    """Kills workbenches and their workers, all on one database in `home`."""

    home: Path
    draw: random.Random
    kills: int = 0
    losses: list[Loss] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.home / "data" / "dspark-tui" / "sessions.db"

    def once(self, *, worker: bool) -> None:
        """Start one, kill it (or first its worker) at some moment, and look at what is left."""
        log = self.home / f"log-{len(self.losses)}"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.victim", str(log)],
            env={**os.environ, "XDG_DATA_HOME": str(self.home / "data"), "HOME": str(self.home)},
            cwd=Path(__file__).parents[1],
        )
        try:
            self._until(lambda: receiving(log))
            time.sleep(self.draw.random())
            if worker:
                (workers_pid,) = children(process.pid)
                os.kill(workers_pid, signal.SIGKILL)
                self.kills += 1
                time.sleep(self.draw.random())
        finally:
            process.kill()
            process.wait()
        self.kills += 1
        self.losses.append(self._loss(log))

    def _loss(self, log: Path) -> Loss:
        """Compare the database with the log. Raises AssertionError if it is not sound."""
        stored = sound(self.database)
        lines = log.read_text().splitlines(keepends=True)
        looks = [json.loads(line) for line in lines if line.endswith("\n")]
        end, loss = looks[-1][0], Loss(kept=looks[-1][2])
        for number, (moment, look, _) in enumerate(looks):
            for id, (length, status) in look.items():
                kept, kept_status = stored.get(int(id), (-1, ""))
                over = status not in ("waiting", "sent", "running")
                if kept < length:
                    loss.text = max(loss.text, end - moment)
                if over and kept_status != status:
                    loss.finished = max(loss.finished, end - moment)
                if kept < length or (over and kept_status != status):
                    loss.broken += number < loss.kept
        return loss

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "the workbench never began to receive"
            time.sleep(0.02)

    def unmarked(self) -> int:
        """Turns that still count as running after the next start."""
        Workspaces(self.database).close()
        raw = sqlite3.connect(self.database)
        (count,) = raw.execute("select count(*) from turns where not finished").fetchone()
        raw.close()
        return int(count)


def receiving(log: Path) -> bool:
    """Has it seen text of a turn that is not over?"""
    looks = log.read_text() if log.exists() else ""
    return '"running"' in looks


def sound(database: Path) -> dict[int, tuple[int, str]]:
    """Length and status of every turn; the file, its references and its index are checked."""
    raw = sqlite3.connect(database, isolation_level=None)
    assert raw.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert raw.execute("pragma foreign_key_check").fetchall() == []
    raw.execute("insert into words (words) values ('integrity-check')")
    rows = raw.execute("select id, length(answer), status from turns").fetchall()
    raw.close()
    return {id: (length, status) for id, length, status in rows}


if __name__ == "__main__":
    asyncio.run(talk(Path(sys.argv[1])))
