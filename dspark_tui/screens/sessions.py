"""All sessions, and by typing, everything that was ever said in them."""

from __future__ import annotations

import sqlite3
import time
from typing import ClassVar

from textual.content import Content

from dspark_tui.screens.ask import Ask
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.finder import Finder, Query
from dspark_tui.storage.journal import Journal
from dspark_tui.storage.rows import Hit, Listed
from dspark_tui.storage.workspace import params_of
from dspark_tui.storage.workspaces import UNTITLED, Choice, Workspaces
from dspark_tui.text.foreign import drawable

SHOWN = 120
"""Characters of a text in the list."""

AROUND = 30
"""Of them, before a word that was found."""


class SessionQuery(Query):
    KEYS: ClassVar = {**Query.KEYS, "ctrl+n": "new()", "f2": "rename()", "f8": "delete()"}


class Sessions(Finder[Listed | Hit, Choice]):
    """Gives what is to be opened."""

    SUBJECT = "sessions"
    HINT = "Enter opens   F2 renames   F8 deletes   ^N new   Esc leaves"
    PLACEHOLDER = "words of anything ever said"
    QUERY = SessionQuery

    def __init__(self, workspaces: Workspaces, journal: Journal) -> None:
        """journal: of the session that is open here."""
        super().__init__()
        self._workspaces, self._journal = workspaces, journal
        self._words: list[str] = []

    @property
    def _current(self) -> int:
        return self._journal.workspace.id

    def look_up(self, query: str) -> None:
        self.run_worker(self._find(query), group="find", exclusive=True, exit_on_error=False)

    def entry(self, found: Listed | Hit) -> Content:
        if isinstance(found, Hit):
            return _passage(found, self._words)
        here = "open here" if found.id == self._current else _ago(time.time() - found.used)
        facts = f"{found.panes} panes  {found.turns} turns  {here}"
        return Content.assemble((_name(found), "bold"), "   ", (facts, "$text-muted"))

    def choose(self, found: Listed | Hit) -> None:
        match found:
            case Listed():
                self.dismiss(Choice(found.id))
            case Hit():
                self.dismiss(Choice(found.workspace, found.turn))

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
                self.look_up(self.query_text)

        self.app.push_screen(Ask("name of the session", session.name[:SHOWN]), rename)

    def action_delete(self) -> None:
        session = self.highlighted
        if not isinstance(session, Listed):
            return
        if session.id == self._current:
            self.notify("this one is open: open another first", markup=False)
            return
        if self._workspaces.in_use(session.id):
            self.notify("another window has it open", markup=False)
            return

        def delete(confirmed: bool | None) -> None:
            if confirmed:
                self._workspaces.delete(session.id)
                self.look_up(self.query_text)

        question = f"Delete {_name(session)} with its {session.turns} turns for good?"
        self.app.push_screen(Confirm(question, "delete"), delete)

    async def _find(self, query: str) -> None:
        """List what has the words; without any, every session."""
        saver = self._workspaces.saver
        try:
            sessions = await saver.ask(lambda store: store.listed())
            hits = await saver.ask(lambda store: store.search(query))
        except sqlite3.Error as error:
            self.notify(f"the sessions can't be read: {error}", severity="error", markup=False)
            return
        self._words = words = query.casefold().split()
        named = [s for s in sessions if all(word in s.name.casefold() for word in words)]
        counted = f"{len(named)} of {len(sessions)}" if words else f"{len(sessions)}"
        self.show([*named, *hits], counted + (f"   turns: {len(hits)}" if words else ""))


def _name(session: Listed) -> str:
    return drawable(" ".join(session.name[:SHOWN].split())) or UNTITLED


def _passage(hit: Hit, words: list[str]) -> Content:
    """Where it is, and the text around the first word that is in it."""
    text = hit.prompt if any(word in hit.prompt.casefold() for word in words) else hit.answer
    text = " ".join(text.split())
    place = min((at for word in words if (at := text.casefold().find(word)) >= 0), default=0)
    start = max(0, place - AROUND)
    passage = Content(drawable(text[start : start + SHOWN]))
    for word in words:
        at = passage.plain.casefold().find(word)
        if at >= 0:
            passage = passage.stylize("bold $primary", at, at + len(word))
    session = drawable(" ".join(hit.session[:24].split())) or UNTITLED
    name = f"{hit.number} {params_of(hit.params).name}".rstrip()
    return Content.assemble((f"  {session}, {name}: ", "$text-muted"), passage)


def _ago(seconds: float) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
