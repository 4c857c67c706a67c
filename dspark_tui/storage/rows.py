"""The rows of the database, as values that can cross threads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

NAME_LENGTH = 200
"""Characters of a first prompt that stand for a session's name."""


class WorkspaceRow(Struct, frozen=True):
    """A session. name: "" goes by its first prompt. used: Unix time. view: JSON."""

    id: int
    name: str
    used: float
    view: str


class PaneRow(Struct, frozen=True):
    """params: JSON. leaf: the last turn of the branch that is shown, None where there is none."""

    id: int
    workspace: int
    number: int
    params: str
    leaf: int | None


class TurnRow(Struct, frozen=True):
    """seed: as text, since it may have 64 bits. finished: nothing more is coming."""

    id: int
    pane: int
    parent: int | None
    prompt: str
    answer: str
    status: str
    problem: str
    origin: str
    seed: str | None
    finished: bool


class RequestRow(Struct, frozen=True):
    """A `RequestRecord` of the turn."""

    id: int
    turn: int
    request: str
    model: str
    sampling: str
    sent: float
    waited: float | None
    first: float | None
    last: float | None
    ended: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    tokens: int
    reason: str
    system: str | None


Row = WorkspaceRow | PaneRow | TurnRow | RequestRow

TABLES: dict[type[Row], str] = {
    WorkspaceRow: "workspaces",
    PaneRow: "panes",
    TurnRow: "turns",
    RequestRow: "requests",
}


class Stored(Struct, frozen=True):
    """One workspace, whole; oldest rows first."""

    workspace: WorkspaceRow
    panes: Sequence[PaneRow] = ()
    turns: Sequence[TurnRow] = ()
    requests: Sequence[RequestRow] = ()


class Listed(Struct, frozen=True):
    """A workspace as the list of them shows it. name: its first prompt where it has none."""

    id: int
    name: str
    used: float
    panes: int
    turns: int


class Hit(Struct, frozen=True):
    """A turn that has the words. session: the workspace's name. params: the pane's, as JSON."""

    workspace: int
    session: str
    pane: int
    number: int
    params: str
    turn: int
    prompt: str
    answer: str
