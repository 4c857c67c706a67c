"""The database file: its tables, and whether a file is one of ours that we can write.

A turn is searchable once nothing more is coming: indexing it at every step of a stream would cost
more with each step.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

APPLICATION = 0x6453504B
VERSION = 2

BUSY_PATIENCE = 10.0
"""Seconds to wait while another instance writes."""

SCHEMA = """
create table workspaces (
    id integer primary key,
    name text not null,
    used real not null,
    view text not null
);
create table panes (
    id integer primary key,
    workspace integer not null
        references workspaces on delete cascade deferrable initially deferred,
    number integer not null,
    params text not null,
    leaf integer
);
create table turns (
    id integer primary key,
    pane integer not null references panes on delete cascade deferrable initially deferred,
    parent integer references turns on delete cascade deferrable initially deferred,
    prompt text not null,
    answer text not null,
    status text not null,
    problem text not null,
    origin text not null,
    seed text,
    finished integer not null
);
create table requests (
    id integer primary key,
    turn integer not null references turns on delete cascade deferrable initially deferred,
    request text not null,
    model text not null,
    sampling text not null,
    sent real not null,
    waited real,
    first real,
    last real,
    ended real,
    prompt_tokens integer,
    cached_tokens integer,
    tokens integer not null,
    reason text not null,
    system text
);
create index panes_of_workspace on panes (workspace);
create index turns_of_pane on turns (pane);
create index turns_of_parent on turns (parent);
create index turns_unfinished on turns (pane) where not finished;
create index requests_of_turn on requests (turn);

create virtual table words using fts5 (
    prompt, answer, content = 'turns', content_rowid = 'id', tokenize = 'trigram'
);
create trigger turn_arrives after insert on turns when new.finished begin
    insert into words (rowid, prompt, answer) values (new.id, new.prompt, new.answer);
end;
create trigger turn_goes after delete on turns when old.finished begin
    insert into words (words, rowid, prompt, answer)
        values ('delete', old.id, old.prompt, old.answer);
end;
create trigger turn_was before update of prompt, answer, finished on turns when old.finished begin
    insert into words (words, rowid, prompt, answer)
        values ('delete', old.id, old.prompt, old.answer);
end;
create trigger turn_is after update of prompt, answer, finished on turns when new.finished begin
    insert into words (rowid, prompt, answer) values (new.id, new.prompt, new.answer);
end;
"""

UPGRADES = {1: "alter table requests add column system text"}
"""What makes a file of that version one of the next."""


class NewerError(Exception):
    """A later version of the program made the file."""


class ForeignError(Exception):
    """The file is no database of ours, or a broken one. `str()` says what is wrong with it."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file for writing, making it if there is none.

    Raises NewerError, ForeignError, and sqlite3.OperationalError where it can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_PATIENCE, isolation_level=None)
    try:
        _check(connection)
        if connection.execute("pragma journal_mode").fetchone()[0] != "wal":
            connection.execute("pragma journal_mode = wal")
        connection.execute("pragma secure_delete = on")
        connection.execute("pragma foreign_keys = on")
        _bring_up_to_date(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open the file as it is; an older version's as a copy in memory. Raises sqlite3.Error."""
    uri = path.absolute().as_uri()
    for mode in ("mode=ro", "mode=ro&immutable=1"):  # the latter where even the index can't be made
        connection = sqlite3.connect(f"{uri}?{mode}", uri=True, isolation_level=None)
        try:
            connection.execute("select count(*) from workspaces").fetchone()
            return connection if _version(connection) >= VERSION else _upgraded_copy(connection)
        except sqlite3.OperationalError as error:
            connection.close()
            problem = error
    raise problem


def connect_in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("pragma foreign_keys = on")
    _bring_up_to_date(connection)
    return connection


def move_aside(path: Path) -> Path:
    """Rename the file and what belongs to it. Returns its new place; raises OSError."""
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    path.rename(aside)
    return aside


def _check(connection: sqlite3.Connection) -> None:
    try:
        application, version = (
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        tables = connection.execute("select count(*) from sqlite_schema").fetchone()[0]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise ForeignError(str(error)) from None
    if application == APPLICATION and version > VERSION:
        raise NewerError
    if tables and application != APPLICATION:
        raise ForeignError("another program's database")


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Make the tables where there are none, or what they lack."""
    connection.execute("begin immediate")  # two first starts at once make them once
    try:
        empty = not connection.execute("select count(*) from sqlite_schema").fetchone()[0]
        version = _version(connection)
        if empty:
            for statement in _statements(SCHEMA):
                connection.execute(statement)
            connection.execute(f"pragma application_id = {APPLICATION}")
        else:
            for older in range(version, VERSION):
                connection.execute(UPGRADES[older])
        if version != VERSION:
            connection.execute(f"pragma user_version = {VERSION}")
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def _upgraded_copy(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The same in memory, up to date, instead of a file that can't be changed."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    connection.close()
    _bring_up_to_date(copy)
    return copy


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _statements(script: str) -> list[str]:
    """The script's statements; `executescript` would end the transaction first."""
    statements, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return statements
