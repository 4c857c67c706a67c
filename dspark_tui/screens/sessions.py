"""All sessions, and by typing, everything that was ever said in them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList

from dspark_tui.screens.ask import Ask
from dspark_tui.screens.confirm import Confirm
from dspark_tui.screens.form import Form
from dspark_tui.storage.journal import Journal
from dspark_tui.storage.rows import Hit, Listed
from dspark_tui.storage.workspace import params_of
from dspark_tui.storage.workspaces import Choice, Workspaces
from dspark_tui.text.foreign import drawable
from dspark_tui.widgets.fields import LineBox

SHOWN = 120
"""Characters of a text in the list."""

AROUND = 30
"""Of them, before a word that was found."""


class Query(LineBox):
    KEYS: ClassVar = {
        "enter": "choose()",
        "escape": "leave()",
        "up": "move(-1)",
        "down": "move(+1)",
        "pageup": "move(-10)",
        "pagedown": "move(+10)",
        "ctrl+n": "new()",
        "f2": "rename()",
        "f8": "delete()",
    }


class Sessions(Form[Choice | None]):
    """Gives what is to be opened, or None when left."""

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave")]

    def __init__(self, workspaces: Workspaces, journal: Journal) -> None:
        """journal: of the session that is open here."""
        super().__init__()
        self._workspaces, self._journal = workspaces, journal
        self._sessions: list[Listed] = []
        self._found: Sequence[Listed | Hit] = ()

    def compose(self) -> ComposeResult:
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = "sessions"
            sheet.border_subtitle = "Enter opens   F2 renames   F8 deletes   ^N new   Esc leaves"
            yield Query(id="query", compact=True, placeholder="words of anything ever said")
            yield OptionList(compact=True)

    def on_mount(self) -> None:
        self._list.can_focus = False
        self.begin_in("#query")
        self._look_up()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def _current(self) -> int:
        return self._journal.workspace.id

    @property
    def _highlighted(self) -> Listed | Hit | None:
        at = self._list.highlighted
        return None if at is None or at >= len(self._found) else self._found[at]

    def on_input_changed(self) -> None:
        self._look_up()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._list.highlighted = event.option_index
        self.action_choose()

    def action_move(self, by: int) -> None:
        if self._found:
            at = (self._list.highlighted or 0) + by
            self._list.highlighted = max(0, min(at, len(self._found) - 1))

    def action_choose(self) -> None:
        match self._highlighted:
            case Listed() as session:
                self.dismiss(Choice(session.id))
            case Hit() as hit:
                self.dismiss(Choice(hit.workspace, hit.turn))

    def action_new(self) -> None:
        self.dismiss(Choice(None))

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_rename(self) -> None:
        session = self._highlighted
        if not isinstance(session, Listed):
            return

        def rename(name: str | None) -> None:
            if name is not None:
                self._workspaces.rename(session.id, name.strip())
                if session.id == self._current:
                    self._journal.rename(name.strip())
                self._look_up()

        self.app.push_screen(Ask("name of the session", session.name[:SHOWN]), rename)

    def action_delete(self) -> None:
        session = self._highlighted
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
                self._look_up()

        question = f"Delete {_name(session)} with its {session.turns} turns for good?"
        self.app.push_screen(Confirm(question, "delete"), delete)

    def _look_up(self) -> None:
        query = self.query_one(Query).value
        self.run_worker(self._find(query), group="find", exclusive=True, exit_on_error=False)

    async def _find(self, query: str) -> None:
        """List what has the words; without any, every session."""
        saver = self._workspaces.saver
        try:
            sessions = await saver.ask(lambda store: store.listed())
            hits = await saver.ask(lambda store: store.search(query))
        except sqlite3.Error as error:
            self.notify(f"the sessions can't be read: {error}", severity="error", markup=False)
            return
        words = query.casefold().split()
        named = [s for s in sessions if all(word in s.name.casefold() for word in words)]
        self._found = [*named, *hits]
        options, now = self._list, time.time()
        options.clear_options()
        options.add_options(
            self._entry(found, now) if isinstance(found, Listed) else _passage(found, words)
            for found in self._found
        )
        options.highlighted = 0 if self._found else None
        counted = f"{len(named)} of {len(sessions)}" if words else f"{len(sessions)}"
        title = f"sessions: {counted}" + (f"   turns: {len(hits)}" if words else "")
        self.query_one(".sheet").border_title = title

    def _entry(self, session: Listed, now: float) -> Content:
        here = "open here" if session.id == self._current else _ago(now - session.used)
        facts = f"{session.panes} panes  {session.turns} turns  {here}"
        return Content.assemble((_name(session), "bold"), "   ", (facts, "$text-muted"))


def _name(session: Listed) -> str:
    return drawable(" ".join(session.name[:SHOWN].split())) or "untitled"


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
    session = drawable(" ".join(hit.session[:24].split())) or "untitled"
    name = f"{hit.number} {params_of(hit.params).name}".rstrip()
    return Content.assemble((f"  {session}, {name}: ", "$text-muted"), passage)


def _ago(seconds: float) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
