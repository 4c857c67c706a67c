"""Workspaces, panes, turns and requests in SQLite. Blocking: `Saver` gives it a thread."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import astuple

from dspark_tui.paths import tilde
from dspark_tui.storage import schema as store_schema
from dspark_tui.storage.rows import (
    NAME_LENGTH,
    TABLES,
    Hit,
    Listed,
    PaneRow,
    RequestRow,
    Row,
    Stored,
    TurnRow,
    WorkspaceRow,
)
from dspark_tui.storage.schema import ForeignError, NewerError

log = logging.getLogger(__name__)

FOUND_AT_MOST = 100
INDEXED_LENGTH = 3
"""Characters a word must have for the index to know where it is."""

UNINDEXED_LOOKED_AT = 20_000
"""Latest turns that are read for words too short for the index."""

TIDY_PAGES = 200
"""Of the index, merged at a time: what is to be saved waits meanwhile."""

PROMPTS_LOOKED_AT = 1000

_R = TypeVar("_R")


class Store:
    """One database. writable: False where nothing is kept. problem: one line why, or what was done
    about a file that could not be used; "" if all is well."""

    def __init__(self, connection: sqlite3.Connection, problem: str = "", *, writable: bool = True):
        self._db = connection
        self.problem, self.writable = problem, writable

    @classmethod
    def open(cls, path: Path) -> Store:
        """The database at `path`; one in memory where there can't be any. Never raises."""
        try:
            return cls(store_schema.connect(path))
        except NewerError:
            return cls._read_only(path, "comes from a newer dspark-tui: it is only read")
        except ForeignError as error:
            return cls._replaced(path, str(error))
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return cls._read_only(path, f"can't be written ({reason})")

    @classmethod
    def _read_only(cls, path: Path, why: str) -> Store:
        why = f"{tilde(path)} {why}; what is said now is not kept"
        with suppress(sqlite3.Error):
            return cls(store_schema.connect_for_reading(path), why, writable=False)
        return cls(store_schema.connect_in_memory(), why)

    @classmethod
    def _replaced(cls, path: Path, why: str) -> Store:
        try:
            aside = store_schema.move_aside(path)
            done = f"{tilde(path)} was unusable ({why}) and is now {aside.name}"
            return cls(store_schema.connect(path), done)
        except (OSError, sqlite3.Error) as error:
            log.warning("no new store at %s: %s", path, error)
            return cls._read_only(path, f"is unusable ({why})")

    def close(self) -> None:
        self._db.close()

    # ---- writing

    def save(self, rows: Iterable[Row]) -> None:
        """Insert or replace all of them, or none. Raises sqlite3.Error."""
        if self.writable:
            with self._transaction():
                for row in rows:
                    self._db.execute(_UPSERTS[type(row)], astuple(row))

    def rename(self, workspace: int, name: str) -> None:
        if self.writable:
            self._db.execute("update workspaces set name = ? where id = ?", (name, workspace))

    def delete_workspace(self, workspace: int) -> None:
        self._delete("delete from workspaces where id = ?", workspace)

    def delete_pane(self, pane: int) -> None:
        self._delete("delete from panes where id = ?", pane)

    def _delete(self, statement: str, id: int) -> None:
        """Overwrite it, and leave no copy in the log. What the index knew goes with `tidy`."""
        if self.writable:
            with self._transaction():
                self._db.execute(statement, (id,))
            self._db.execute("pragma wal_checkpoint(truncate)")

    def tidy(self, *, first: bool) -> bool:
        """Merge some of the index, without what was deleted. False when nothing is left to do.

        first: begin to merge all of it; later calls go on with that.
        """
        before = self._db.total_changes
        pages = -TIDY_PAGES if first else TIDY_PAGES
        self._db.execute("insert into words (words, rank) values ('merge', ?)", (pages,))
        more = self._db.total_changes - before >= 2
        if not more:
            self._db.execute("pragma wal_checkpoint(truncate)")
        return more

    def mark_interrupted(self, workspace: int) -> None:
        """End what a killed workbench was still receiving."""
        with self._transaction():
            self._db.execute(
                "update turns set status = 'interrupted', finished = 1 where not finished"
                " and pane in (select id from panes where workspace = ?)",
                (workspace,),
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("rollback")
            raise

    # ---- reading

    def latest(self) -> int | None:
        """The workspace that was used last."""
        found = self._db.execute("select id from workspaces order by used desc limit 1").fetchone()
        return None if found is None else int(found[0])

    def name(self, workspace: int) -> str:
        """What the workspace goes by, "" if it is gone or nothing was said in it."""
        asked = f"select {_NAME} from workspaces as w where id = ?"
        found = self._db.execute(asked, (workspace,)).fetchone()
        return "" if found is None else str(found[0])

    def load(self, workspace: int) -> Stored | None:
        """All of a workspace; None if it is gone."""
        whole = self._select(WorkspaceRow, "where id = ?", workspace)
        if not whole:
            return None
        panes = "pane in (select id from panes where workspace = ?)"
        return Stored(
            whole[0],
            self._select(PaneRow, "where workspace = ? order by number", workspace),
            self._select(TurnRow, f"where {panes} order by id", workspace),
            self._select(
                RequestRow, f"where turn in (select id from turns where {panes}) order by id",
                workspace,
            ),
        )  # fmt: skip

    def unfinished(self) -> list[int]:
        """Workspaces with turns that somebody is still receiving, or was when it was killed."""
        if not self.writable:
            return []
        rows = self._db.execute(
            "select distinct workspace from panes"
            " where id in (select pane from turns where not finished)"
        )
        return [int(id) for (id,) in rows]

    def listed(self) -> list[Listed]:
        """Every workspace, the one used last first."""
        rows = self._db.execute(
            f"select id, {_NAME}, used,"
            " (select count(*) from panes where workspace = w.id),"
            " (select count(*) from turns where pane in"
            "   (select id from panes where workspace = w.id))"
            " from workspaces as w order by used desc"
        )
        return [Listed(*row) for row in rows]

    def prompts(self) -> list[str]:
        """Prompts sent lately, the newest last, each once."""
        rows = self._db.execute(
            "select prompt from turns where origin != 'repeat' order by id desc limit ?",
            (PROMPTS_LOOKED_AT,),
        )
        return list(dict.fromkeys(prompt for (prompt,) in rows))[::-1]

    def search(self, text: str) -> list[Hit]:
        """Finished turns that have every word of the text in prompt or answer, newest first.

        Of a prompt's repeats with none of the words in their answers, only the newest.
        """
        words = text.split()
        indexed = [word for word in words if len(word) >= INDEXED_LENGTH]
        others = [word for word in words if len(word) < INDEXED_LENGTH]
        if not words:
            return []
        source, order, conditions = "turns as t", "t.id", []
        if indexed:  # the index hands its rows out newest first, so that the limit ends the work
            source, order = "words as i cross join turns as t on t.id = i.rowid", "i.rowid"
            conditions.append("i.words match ?")
        else:
            oldest = f"select id from turns order by id desc limit 1 offset {UNINDEXED_LOOKED_AT}"
            conditions.append(f"t.id > coalesce(({oldest}), 0)")
        conditions += ["instr(lower(t.prompt || ' ' || t.answer), lower(?))"] * len(others)
        answers = " or ".join(["instr(lower(t.answer), lower(?))"] * len(words))
        conditions.append(f"(t.origin != 'repeat' or {answers} or not exists ({_NEWER_REPEAT}))")
        phrases = " ".join('"' + word.replace('"', '""') + '"' for word in indexed)
        rows = self._db.execute(
            f"select w.id, {_NAME}, p.id, p.number, p.params, t.id, t.prompt, t.answer"
            f" from {source} join panes as p on p.id = t.pane"
            " join workspaces as w on w.id = p.workspace"
            f" where {' and '.join(conditions)} order by {order} desc limit {FOUND_AT_MOST}",
            [*([phrases] if indexed else []), *others, *words],
        )
        return [Hit(*row) for row in rows]

    def _select(self, kind: type[_R], where: str, *values: Any) -> list[_R]:
        names = ", ".join(_columns(kind))
        rows = self._db.execute(f"select {names} from {TABLES[kind]} {where}", values)  # type: ignore[index]
        return [kind(*row) for row in rows]


def _columns(kind: type[Any]) -> list[str]:
    return list(kind.__struct_fields__)


def _upsert(kind: type[Row]) -> str:
    names = _columns(kind)
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    marks = ", ".join("?" * len(names))
    return (
        f"insert into {TABLES[kind]} ({', '.join(names)}) values ({marks})"
        f" on conflict (id) do update set {changes}"
    )


_UPSERTS = {kind: _upsert(kind) for kind in TABLES}

_NEWER_REPEAT = (
    "select 1 from turns as newer where newer.pane = t.pane and newer.parent is t.parent"
    " and newer.prompt = t.prompt and newer.origin = 'repeat' and newer.id > t.id"
)
_FIRST = "select min(id) from turns where pane in (select id from panes where workspace = w.id)"
_NAME = (
    "iif(w.name != '', w.name,"
    f" coalesce((select substr(prompt, 1, {NAME_LENGTH}) from turns where id = ({_FIRST})), ''))"
)
"""What workspace w goes by: its name, else the beginning of its first prompt."""
