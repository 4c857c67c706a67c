"""Broadcasts and their figures, votes and their count, panes without names: from plain records."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from dspark_tui.comparison.blind import hidden, hide, reveal
from dspark_tui.comparison.broadcasts import Broadcast, Broadcasts
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Session, Turn, TurnStatus
from dspark_tui.conversation.votes import Score, Vote, tally
from dspark_tui.screens.broadcast_table import CSV_COLUMNS, csv_rows, table
from dspark_tui.screens.csv_export import write_csv
from engine.proof.shape import Solo
from engine.proof.verdict import Name

PROMPT = 'Say "hello", twice.\nThen stop.'
SOLO = Solo(0.5, 2.0, 40)


@dataclass
class Asked:
    """A run that is over."""

    pane: Conversation
    turn: Turn
    kept: RequestRecord

    def record(self) -> RequestRecord:
        return self.kept


def asked(
    pane: Conversation, answer: str = "", sent: float = 100.0, first: float = 0.5, last: float = 2.0
) -> Asked:
    """A run of 40 tokens."""
    turn = Turn(PROMPT, answer=answer, status=TurnStatus.DONE)
    record = RequestRecord(
        1, "r", sent=sent, first=first, last=last, ended=last, tokens=40, cached_tokens=7,
        reason="stop", sampling='{"seed": 1}',
    )  # fmt: skip
    return Asked(pane, turn, record)


def session(*params: PaneParams) -> Session:
    return Session(params or (PaneParams(name="control"), PaneParams(name="hot", temperature=1.2)))


def broadcast(panes: Session, *runs: Asked) -> Broadcast:
    broadcasts = Broadcasts()
    broadcasts.sent(PROMPT, panes.panes, panes.panes[0])
    for run in runs:
        broadcasts.begun(run)
    return broadcasts[-1]


def test_candidates_are_named_by_what_sets_them_apart_as_they_were_asked() -> None:
    panes = session()
    found = broadcast(panes)
    panes.panes[1].params = PaneParams(name="later")
    assert [reply.candidate for reply in found.replies] == ["1 control", "2 hot  T1.2"]


def test_a_run_joins_the_oldest_broadcast_whose_prompt_still_waits_for_its_pane() -> None:
    broadcasts, panes = Broadcasts(), session()
    for _ in range(2):
        broadcasts.sent(PROMPT, panes.panes, panes.panes[0])
    first, second, third = (asked(panes.panes[0]) for _ in range(3))
    for run in (first, second, third):
        broadcasts.begun(run)
    assert [broadcasts[n].replies[0].run for n in range(2)] == [first, second]
    assert broadcasts[0].replies[1].ending == "queued"


def test_a_prompt_taken_back_no_longer_waits() -> None:
    broadcasts, panes = Broadcasts(), session()
    for _ in range(2):
        broadcasts.sent(PROMPT, panes.panes, panes.panes[0])
    broadcasts.dropped(panes.panes[1], PROMPT)
    assert [broadcasts[n].replies[1].ending for n in range(2)] == ["queued", "taken back"]
    run = asked(panes.panes[1])
    broadcasts.begun(run)
    broadcasts.begun(asked(panes.panes[1]))
    assert [broadcasts[n].replies[1].run for n in range(2)] == [run, None]


def test_the_aggregate_is_all_tokens_over_the_time_to_the_last_end() -> None:
    panes = session()
    one, two = panes.panes
    found = broadcast(panes, asked(one, last=2.0), asked(two, sent=101.0, last=4.0))
    total = found.aggregate
    assert total is not None
    assert (total.tokens, total.seconds, total.rate) == (80, 5.0, 16.0)
    assert broadcast(panes).aggregate is None


def test_the_verdict_is_that_of_the_live_panel_s_judge() -> None:
    panes = session()
    one, two = panes.panes
    together = broadcast(panes, asked(one), asked(two)).verdict(SOLO, 8)
    assert together is not None
    assert together.name is Name.BATCHED
    behind = asked(two, sent=100.1, first=2.4, last=4.0)
    queue = broadcast(panes, asked(one), behind).verdict(SOLO, 8)
    assert queue is not None
    assert queue.name is Name.QUEUE
    assert broadcast(panes, asked(one)).verdict(SOLO, 8) is None


def test_the_table_shows_the_records_and_a_dash_for_what_is_unknown() -> None:
    panes = session()
    one, two = panes.panes
    found = broadcast(panes, asked(one, "four words and more [/x]"))
    header, first, second = table(found, 76, "-").plain.split("\n")
    assert header.split() == ["pane", "words", "tokens", "cached", "ttft", "time", "end"]
    assert first.split() == ["1", "control", "5", "40", "7", "0.50", "2.00", "done"]
    assert second.split() == ["2", "hot", "T1.2", "0", "0", "-", "-", "-", "queued"]
    assert two.title == "2 hot"


@pytest.mark.parametrize("width", [92, 74, 52])
def test_no_row_of_the_table_is_wider_than_its_place(width: int) -> None:
    panes = session(PaneParams(), PaneParams(name="n" * 40, system="s" * 50))
    found = broadcast(panes, asked(panes.panes[1], "a"))
    found.vote = Vote(PROMPT, (), winners=[found.replies[1].candidate])
    rows = table(found, width, "-").plain.split("\n")
    assert max(map(len, rows)) <= width
    assert " voted " in rows[2]
    assert ("words" in rows[0]) == (width > 52)


def test_where_there_is_hardly_any_place_the_end_stays() -> None:
    panes = session()
    rows = table(broadcast(panes, asked(panes.panes[0])), 5, "-").plain.split("\n")
    assert [row.split()[-1] for row in rows] == ["end", "done", "queued"]


def test_csv_is_read_back_exactly(tmp_path: Path) -> None:
    panes = session()
    text = '=1+1, "quoted"\nnext, line\r\nlast'
    found = broadcast(panes, asked(panes.panes[0], text))
    found.vote = Vote(PROMPT, ("1 control",), blind=True, winners=["1 control"])
    file = tmp_path / "new" / "table.csv"
    write_csv(file, CSV_COLUMNS, csv_rows(found))
    first, second = csv.DictReader(io.StringIO(file.read_bytes().decode(), newline=""))
    assert first["answer"] == text
    assert first["prompt"] == PROMPT
    assert (first["name"], first["vote"], first["blind"]) == ("control", "True", "True")
    assert (second["name"], second["tokens"], second["ttft"]) == ("hot", "0", "")


def test_votes_are_counted_for_each_candidate_with_ties_apart() -> None:
    names = ("1 control", "2 hot", "3 cold")
    won, tie, none = (Vote(PROMPT, names[:size]) for size in (2, 3, 2))
    assert won.toggle("2 hot")
    tie.toggle("2 hot")
    assert tie.toggle("1 control")
    none.toggle("1 control")
    assert not none.toggle("1 control")
    assert tally([won, tie, none]) == [
        Score("2 hot", won=1, tied=1, stood=2),
        Score("1 control", won=0, tied=1, stood=2),
        Score("3 cold", won=0, tied=0, stood=1),
    ]
    assert str(tally([won, tie])[0]) == "2 hot: won 1, tied 1 of 2"


def test_blind_panes_have_letters_in_an_order_that_only_the_seed_tells() -> None:
    panes = session(*[PaneParams(name=name) for name in "pqrstuvw"])
    orders = []
    for seed in (1, 1, 2):
        hide(panes, seed)
        assert hidden(panes)
        assert [pane.title for pane in panes.panes] == list("ABCDEFGH")
        orders.append([pane.number for pane in panes.panes])
        third = panes.numbered(3)
        assert third is panes.panes[2]
        reveal(panes)
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == [pane.number for pane in panes.panes] != orders[0]
    assert [pane.title for pane in panes.panes][:2] == ["1 p", "2 q"]
    assert not hidden(panes)
