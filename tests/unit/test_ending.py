"""How an answer ended: one word and one mark, whoever tells it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dspark_tui.appearance.glyphs import DEFAULT
from dspark_tui.batch.ending import Ending
from dspark_tui.batch.lane_table import LEGEND_NAMES
from dspark_tui.comparison.broadcasts import Broadcasts
from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Session
from dspark_tui.conversation.turns import Turn, TurnStatus
from dspark_tui.plain import outcome
from dspark_tui.screens.broadcast_table import table
from dspark_tui.storage.export import messages_text, requests_text

ENDS = [
    (TurnStatus.DONE, "stop", "✓ done"),
    (TurnStatus.DONE, "", "✓ done"),
    (TurnStatus.DONE, "tool_calls", "✓ done"),
    (TurnStatus.DONE, "length", "┫ token limit"),
    (TurnStatus.STOPPED, "", "✗ stopped"),
    (TurnStatus.STOPPED, "cancelled", "✗ stopped elsewhere"),
    (TurnStatus.INTERRUPTED, "", "! interrupted"),
    (TurnStatus.FAILED, "", "! failed"),
]
RECORD = RequestRecord(1, "r1", sent=100.0, first=0.5, last=2.0, ended=2.1, tokens=9)


def ended(status: TurnStatus, reason: str) -> Turn:
    return Turn("why", "because", status, requests=[replace(RECORD, reason=reason)])


@pytest.mark.parametrize(("status", "reason", "marked"), ENDS)
def test_an_ending_has_one_mark_and_one_word(status: TurnStatus, reason: str, marked: str) -> None:
    ending = ended(status, reason).ending
    assert ending is not None
    assert ending.marked(DEFAULT) == marked


@pytest.mark.parametrize("status", [TurnStatus.WAITING, TurnStatus.SENT, TurnStatus.RUNNING])
def test_what_goes_on_after_its_end_has_none(status: TurnStatus) -> None:
    turn = ended(status, "length")
    assert turn.ending is None
    assert (turn.state, turn.can_go_on) == (status, False)


@pytest.mark.parametrize(("status", "reason", "marked"), ENDS)
def test_tables_and_exports_use_the_word(status: TurnStatus, reason: str, marked: str) -> None:
    word = marked[2:]
    session = Session([PaneParams(), PaneParams()])
    pane = session.panes[0]
    pane.turns = pane.starts = [ended(status, reason)]
    broadcasts = Broadcasts()
    broadcasts.sent("why", session.panes, pane)
    broadcasts.begun(_Asked(pane))
    assert table(broadcasts[0], 80, "-").plain.split("\n")[1].endswith(f"  {word}")
    (_, said) = map(json.loads, messages_text([pane], ".jsonl").splitlines())
    (asked,) = map(json.loads, requests_text([pane], [], ".jsonl").splitlines())
    assert (said["status"], asked["state"], asked["reason"]) == (word, word, reason)
    assert f"*{word}, 9 tok" in messages_text([pane], ".md")


def test_lines_without_a_screen_use_the_word() -> None:
    assert (
        outcome(Answer(tokens=9, reason="length", problem="")) == "9 tokens in 0.0 s, token limit"
    )
    assert outcome(Answer(tokens=9, reason="stop", problem="")) == "9 tokens in 0.0 s"
    assert outcome(Answer()) == Ending.INTERRUPTED


def test_the_legend_of_lanes_has_the_words_and_no_others_for_their_marks() -> None:
    ends = {ending.cell: [] for ending in Ending}
    for ending in Ending:
        ends[ending.cell].append(ending)
    assert all(LEGEND_NAMES[cell] in endings for cell, endings in ends.items())


class _Asked:
    def __init__(self, pane: Conversation) -> None:
        self.pane, self.turn = pane, pane.turns[0]

    def record(self) -> RequestRecord:
        return self.turn.requests[0]
