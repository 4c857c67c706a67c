"""Broadcasts of a stored session: which prompts went out together, and whose vote is whose."""

from __future__ import annotations

from dspark_tui.comparison.broadcast_memory import remembered
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Session, TurnStatus
from dspark_tui.conversation.votes import Vote


def answered(pane: Conversation, prompt: str, sent: float) -> None:
    turn = pane.begin(prompt)
    turn.id = round(sent * 1e9)
    turn.answer, turn.status = f"answer of {pane.number}", TurnStatus.DONE
    turn.requests.append(RequestRecord(1, sent=sent, first=0.1, last=1.0, ended=1.0, tokens=9))


def stored() -> Session:
    """Two broadcasts of the same words, a prompt to one pane between them, one that waited."""
    session = Session([PaneParams(name="a"), PaneParams(name="b"), PaneParams(name="c")])
    one, two, three = session.panes
    answered(two, "hello", 100.0)
    answered(one, "hello", 100.1)
    answered(one, "alone", 120.0)
    answered(one, "hello", 140.0)
    answered(three, "hello", 140.2)
    answered(two, "hello", 143.0)
    return session


def test_what_was_sent_at_once_is_a_broadcast_in_the_panes_order() -> None:
    first, second = remembered(stored())
    assert [reply.candidate for reply in first.replies] == ["1 a", "2 b"]
    assert [reply.candidate for reply in second.replies] == ["1 a", "3 c"]
    assert first.replies[0].answer == "answer of 1"
    assert first.aggregate is not None
    assert (first.aggregate.tokens, round(first.aggregate.seconds, 3)) == (18, 1.1)


def test_each_broadcast_finds_its_own_vote() -> None:
    session = stored()
    early, late = Vote("hello", ("1 a", "2 b")), Vote("hello", ("1 a", "3 c"))
    other = Vote("hello", ("1 a", "2 b"), winners=["2 b"])
    session.votes = [early, other, late, Vote("other", ("1 a", "3 c"))]
    first, second = remembered(session)
    assert first.vote is other
    assert second.vote is late
    assert len(session.votes) == 4


def test_a_turn_that_was_never_sent_is_left_out() -> None:
    session = Session([PaneParams(), PaneParams()])
    for pane in session.panes:
        pane.begin("waiting")
    assert remembered(session) == []
