"""All sessions, and by typing, everything that was ever said in them."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import ClassVar

from textual.content import Content

from dspark_tui.appearance.roles import FAINT
from dspark_tui.screens.ask import Ask
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.finder import Finder, Query
from dspark_tui.storage.journal import Journal
from dspark_tui.storage.rows import Hit, Listed
from dspark_tui.storage.workspace import params_of
from dspark_tui.storage.workspaces import UNTITLED, Choice, Workspaces
from dspark_tui.text.counted import counted
from dspark_tui.text.foreign import drawable

SHOWN = 200
"""Characters of a text that are looked at for a line of the list: no line is longer."""

WHERE = 30
"""The most cells that say where words were found; a third of the line at most."""

NAME = 40
"""Cells of a session's name in a question."""


class SessionQuery(Query):
    KEYS: ClassVar = {**Query.KEYS, "ctrl+n": "new()", "f2": "rename()", "f8": "delete()"}


class Sessions(Finder[Listed | Hit, Choice]):
    """Gives what is to be opened."""

    SUBJECT = "sessions"
    HINT = "Enter opens   F2 renames   F8 deletes   ^N new   Esc leaves"
    PLACEHOLDER = "words of anything ever said"
    QUERY = SessionQuery
    KEY_HELP: ClassVar = (
        ("Enter", "open the session, or show the turn that was found"),
        ("^N", "begin a new session; the one open now is kept"),
        ("F2", "rename the session"),
        ("F8", "delete it for good, after a question"),
        *Finder.KEY_HELP,
    )

    def __init__(self, workspaces: Workspaces, journal: Journal) -> None:
        """journal: of the session that is open here."""
        super().__init__()
        self._workspaces, self._journal = workspaces, journal
        self._words: list[str] = []
        self._elsewhere: set[int] = set()  # open in other windows

    @property
    def _current(self) -> int:
        return self._journal.workspace.id

    def look_up(self, query: str) -> None:
        self._look_up(query)

    def _look_up(self, query: str, stay_on: int | None = None) -> None:
        work = self._find(query, stay_on)
        self.run_worker(work, group="find", exclusive=True, exit_on_error=False)

    def entry(self, found: Listed | Hit, width: int) -> Content:
        if isinstance(found, Hit):
            return _passage(found, self._words, width)
        panes, turns = counted(found.panes, "pane"), counted(found.turns, "turn")
        facts = f"  {panes:>7}  {turns:>9}  {self._last_used(found):>14}"
        name = Content(_name(found)).truncate(width - len(facts), ellipsis=True, pad=True)
        return Content.assemble(name.stylize("bold"), (facts, FAINT))

    def choose(self, found: Listed | Hit) -> None:
        match found:
            case Listed():
                session, turn = found.id, None
            case Hit():
                session, turn = found.workspace, found.turn
        if not self._refused(session):
            self.dismiss(Choice(session, turn))

    def action_new(self) -> None:
        self.dismiss(Choice(None))

    def action_rename(self) -> None:
        session = self.highlighted
        if not isinstance(session, Listed):
            return

        def rename(name: str | None) -> None:
            if name is not None:
                self._workspaces.rename(session.id, name.strip())
                if session.id == self._current:
                    self._journal.rename(name.strip())
                self._look_up(self.query_text, stay_on=session.id)

        self.app.push_screen(Ask("name of the session", session.name), rename)

    def action_delete(self) -> None:
        session = self.highlighted
        if not isinstance(session, Listed):
            return
        if session.id == self._current:
            self.notify("this one is open: open another first", markup=False)
            return
        if self._refused(session.id):
            return

        def delete(confirmed: bool | None) -> None:
            if confirmed:
                self._workspaces.delete(session.id)
                self.look_up(self.query_text)

        name = Content(_name(session)).truncate(NAME, ellipsis=True).plain
        question = f"Delete {name} with its {counted(session.turns, 'turn')} for good?"
        self.app.push_screen(Confirm(question, "delete"), delete)

    def _refused(self, session: int) -> bool:
        """Say so where another window has it, which nobody can open, nor delete, beside that."""
        refused = session != self._current and self._workspaces.in_use(session)
        if refused:
            self.notify("another window has it open", markup=False)
        return refused

    def _last_used(self, session: Listed) -> str:
        if session.id == self._current:
            return "open here"
        return "in use" if session.id in self._elsewhere else _ago(time.time() - session.used)

    async def _find(self, query: str, stay_on: int | None) -> None:
        """List what has the words; without any, every session. stay_on: the one to highlight."""
        saver = self._workspaces.saver
        try:
            sessions = await saver.ask(lambda store: store.listed())
            hits = await saver.ask(lambda store: store.search(query))
        except sqlite3.Error as error:
            self.notify(f"the sessions can't be read: {error}", severity="error", markup=False)
            return
        self._words = words = query.casefold().split()
        named = [s for s in sessions if all(word in s.name.casefold() for word in words)]
        in_use = self._workspaces.in_use
        self._elsewhere = await asyncio.to_thread(lambda: {s.id for s in named if in_use(s.id)})
        at = next((n for n, session in enumerate(named) if session.id == stay_on), 0)
        found = f"{len(named)} of {len(sessions)}   turns: {len(hits)}" if words else len(sessions)
        self.show([*named, *hits], str(found), at)


def _name(session: Listed) -> str:
    return drawable(" ".join(session.name[:SHOWN].split())) or UNTITLED


def _passage(hit: Hit, words: list[str], width: int) -> Content:
    """Where it is, and the text around the first word that is in it."""
    session = Content(drawable(" ".join(hit.session[:SHOWN].split())) or UNTITLED)
    pane = Content(f", {hit.number} {params_of(hit.params).name}".rstrip())
    room = min(WHERE, width // 3)
    pane = pane.truncate(room // 2, ellipsis=True)
    session = session.truncate(room - pane.cell_length, ellipsis=True)
    where = Content.assemble("  ", session, pane, ": ")
    text = hit.prompt if any(word in hit.prompt.casefold() for word in words) else hit.answer
    text = _around(" ".join(text.split()), words, width - where.cell_length)
    passage = Content(drawable(text))
    for word in words:
        at = passage.plain.casefold().find(word)
        if at >= 0:
            passage = passage.stylize("bold $primary", at, at + len(word))
    return Content.assemble(where.stylize(FAINT), passage)


def _around(text: str, words: list[str], room: int) -> str:
    """From a little before the first of the words in it, which has a third of the room."""
    place = min((at for word in words if (at := text.casefold().find(word)) >= 0), default=0)
    start = place - room // 3
    start = 0 if start <= 0 else text.find(" ", start, place) + 1 or start
    return f"{'…' if start else ''}{text[start : start + SHOWN]}"


def _ago(seconds: float) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now"
