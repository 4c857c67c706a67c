"""A session as rows of the store, and back. Pure.

A parameter this program can't use keeps its default: a stored session always opens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import asdict

from dspark_tui.comparison.blind import hidden, hide_again
from dspark_tui.conversation.bookmark import Bookmark
from dspark_tui.conversation.params import FIELDS, PaneParams, ParamError, updated
from dspark_tui.conversation.pastes import Draft
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Session, Target
from dspark_tui.conversation.turns import Origin, Turn, TurnStatus
from dspark_tui.conversation.votes import Vote
from dspark_tui.storage.rows import PaneRow, RequestRow, Stored, TurnRow
from dspark_tui.text.foreign import encodable


class View(Struct):
    """How a session was looked at. layout: "" for the usual. zoomed: the active pane fills the
    screen. draft: what stands in the composer. unsent: prompts that were queued when it was left.
    """

    layout: str = ""
    zoomed: bool = False
    draft: Draft = field(default_factory=Draft)
    unsent: list[str] = field(default_factory=list)


def dump_view(session: Session, view: View) -> str:
    """The session without its panes, as JSON."""
    return json.dumps(
        {
            "target": session.target,
            "chosen": sorted(session.chosen),
            "active": session.active.number,
            "votes": [asdict(vote) for vote in session.votes],
            "drafts": {key: _dumped(draft) for key, draft in session.drafts.items()},
            "blind": [pane.number for pane in session.panes] if hidden(session) else [],
            "layout": view.layout,
            "zoomed": view.zoomed,
            "left_off": {
                pane.number: asdict(pane.left_off) for pane in session.panes if pane.left_off
            },
            "draft": _dumped(view.draft),
            "queued": session.queued,
        }
    )


_dumped = lru_cache(maxsize=16)(Draft.dumps)
"""A draft may hold a megabyte of pastes, and mostly it is the same as at the last look."""


def pane_row(pane: Conversation, workspace: int) -> PaneRow:
    leaf = pane.turns[-1].id if pane.turns else None
    return PaneRow(pane.id, workspace, pane.number, json.dumps(asdict(pane.params)), leaf)


def turn_row(turn: Turn, pane: Conversation) -> TurnRow:
    return TurnRow(
        id=turn.id,
        pane=pane.id,
        parent=None if turn.parent is None else turn.parent.id,
        prompt=encodable(turn.prompt),
        answer=encodable(turn.answer),
        status=turn.status,
        problem=encodable(turn.problem),
        origin=turn.origin,
        seed=None if turn.seed is None else str(turn.seed),
        finished=turn.status.over,
    )


def request_row(record: RequestRecord, turn: Turn) -> RequestRow:
    return RequestRow(turn=turn.id, **asdict(record))


def restored(stored: Stored) -> tuple[Session, View]:
    """The session the rows are of."""
    document = _document(stored.workspace.view)
    session = Session(params_of(row.params) for row in stored.panes)
    turns = {row.id: _turn(row) for row in stored.turns}
    for conversation, row in zip(session.panes, stored.panes, strict=False):
        conversation.id, conversation.number = row.id, row.number
        own = [turn for turn in stored.turns if turn.pane == row.id]
        _grow(conversation, own, turns)
        if row.leaf in turns:
            conversation.show(turns[row.leaf])
    for request in stored.requests:
        turns[request.turn].requests.append(_record(request))
    _restore_rest(session, document)
    return session, _view(document)


def params_of(saved: str) -> PaneParams:
    """A pane's parameters from JSON."""
    params = PaneParams()
    for key, value in _document(saved).items():
        if key in FIELDS:
            with suppress(ParamError):
                params = updated(params, {key: value})
    return params


def every_turn(pane: Conversation) -> Iterator[Turn]:
    """All turns of all branches, parents first."""
    waiting = list(reversed(pane.starts))
    while waiting:
        turn = waiting.pop()
        yield turn
        waiting += reversed(turn.children)


def _grow(pane: Conversation, rows: list[TurnRow], turns: dict[int, Turn]) -> None:
    """Hang the pane's turns into its tree. Rows are in the order the turns were made in."""
    for row in rows:
        turn = turns[row.id]
        turn.parent = None if row.parent is None else turns[row.parent]
        pane.siblings(turn).append(turn)


def _turn(row: TurnRow) -> Turn:
    """It receives nothing any more, also where a file that is only read says that it does."""
    status: TurnStatus = _member(TurnStatus, row.status, TurnStatus.INTERRUPTED)
    return Turn(
        prompt=row.prompt,
        answer=row.answer,
        status=status if status.over else TurnStatus.INTERRUPTED,
        problem=row.problem,
        origin=_member(Origin, row.origin, Origin.SENT),
        seed=None if row.seed is None else int(row.seed),
        id=row.id,
    )


def _record(row: RequestRow) -> RequestRecord:
    return RequestRecord(**{name: getattr(row, name) for name in RequestRecord.__struct_fields__})


def _restore_rest(session: Session, document: dict[str, Any]) -> None:
    session.chosen = set(document.get("chosen", ()))
    session.target = _member(Target, document.get("target"), Target.ALL)
    active = document.get("active")
    session.active = next((p for p in session.panes if p.number == active), session.panes[0])
    for pane in session.panes:
        with suppress(LookupError, ValidationError):  # it was a number of lines once
            pane.left_off = convert(document["left_off"][str(pane.number)], Bookmark)
    with suppress(TypeError):
        hide_again(session, document.get("blind", ()))
    for vote in document.get("votes", ()):
        with suppress(TypeError):
            vote["candidates"] = tuple(vote["candidates"])
            session.votes.append(Vote(**vote))
    by_number = {str(pane.number): str(pane.id) for pane in session.panes}  # as drafts once were
    for key, draft in document.get("drafts", {}).items():
        with suppress(ValueError):
            session.drafts[by_number.get(key, key)] = Draft.loads(draft)


def _view(document: dict[str, Any]) -> View:
    view = View(document.get("layout", ""), unsent=document.get("queued", []))
    view.zoomed = document.get("zoomed") is True
    with suppress(LookupError, ValueError):
        view.draft = Draft.loads(document["draft"])
    return view


def _member(kind: Any, value: object, default: Any) -> Any:
    return kind(value) if value in list(kind) else default


def _document(saved: str) -> dict[str, Any]:
    try:
        document = json.loads(saved)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
