"""The broadcasts of a session that was opened again, found by when its turns began. Pure.

A prompt that waited behind a pane's earlier answer went out later: it isn't counted in.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dspark_tui.batch.judged import AT_ONCE
from dspark_tui.comparison.broadcasts import Broadcast, Reply
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Session, Turn
from dspark_tui.conversation.turns import Origin
from dspark_tui.storage.workspace import every_turn


class Answered(Struct):
    """A turn from the store, in place of the run that it once was."""

    pane: Conversation
    turn: Turn

    def record(self) -> RequestRecord:
        return self.turn.requests[0]


def remembered(session: Session) -> list[Broadcast]:
    """Prompts that went to several panes at once, oldest first, each with its vote."""
    groups: list[list[Answered]] = []
    for answered in sorted(_answered(session.panes), key=lambda a: a.turn.created):
        if groups and _together(groups[-1], answered):
            groups[-1].append(answered)
        else:
            groups.append([answered])
    found = [_broadcast(group, session) for group in groups if len(group) > 1]
    votes = list(session.votes)
    for broadcast in reversed(found):
        candidates = tuple(reply.candidate for reply in broadcast.replies)
        for vote in reversed(votes):
            if (vote.prompt, vote.candidates) == (broadcast.prompt, candidates):
                broadcast.vote = vote
                votes.remove(vote)
                break
    return found


def _answered(panes: Iterable[Conversation]) -> Iterable[Answered]:
    return (
        Answered(pane, turn)
        for pane in panes
        for turn in every_turn(pane)
        if turn.requests and turn.origin is not Origin.REPEAT
    )


def _together(group: list[Answered], other: Answered) -> bool:
    first = group[0]
    return (
        other.turn.prompt == first.turn.prompt
        and other.turn.created - first.turn.created <= AT_ONCE
        and all(other.pane is not answered.pane for answered in group)
    )


def _broadcast(group: list[Answered], session: Session) -> Broadcast:
    base = min(session.panes, key=lambda pane: pane.number)
    group.sort(key=lambda answered: answered.pane.number)
    replies = [Reply.of(answered.pane, base, answered) for answered in group]
    return Broadcast(group[0].turn.prompt, replies)
