"""Panes, turns, targets and what the engine is told of them."""

from __future__ import annotations

import pytest

from dspark_tui.conversation.params import FIELDS, PaneParams, ParamError, updated
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Session, Target, TurnStatus
from dspark_tui.conversation.turns import Origin


def answered(pane: Conversation, prompt: str, answer: str, status: TurnStatus) -> None:
    turn = pane.begin(prompt)
    turn.answer, turn.status = answer, status


def test_messages_hold_what_was_answered_and_not_what_was_replaced_or_refused() -> None:
    pane = Conversation(1, PaneParams(system="Be kind."))
    answered(pane, "one", "1", TurnStatus.DONE)
    answered(pane, "refused", "", TurnStatus.FAILED)
    answered(pane, "cut", "par", TurnStatus.INTERRUPTED)
    answered(pane, "again", "old", TurnStatus.DONE)
    assert pane.beside_last("again", Origin.NEW_SEED) is pane.turns[-1]
    assert [message["content"] for message in pane.messages()] == [
        "Be kind.", "one", "1", "cut", "par", "again",
    ]  # fmt: skip
    assert [message["role"] for message in pane.messages()][:3] == ["system", "user", "assistant"]


def test_an_answer_that_has_begun_comes_last_in_the_messages() -> None:
    pane = Conversation(1, PaneParams())
    answered(pane, "go", "half an", TurnStatus.STOPPED)
    assert pane.turns[-1].can_go_on
    assert pane.messages()[-1] == {"role": "assistant", "content": "half an"}


def test_what_a_model_reasoned_is_for_no_later_turn() -> None:
    pane = Conversation(1, PaneParams())
    answered(pane, "one", "<think>\nhm\n</think>\n\n1", TurnStatus.DONE)
    answered(pane, "cut", "<think>\nhm", TurnStatus.STOPPED)
    assert pane.messages()[-1]["content"] == "<think>\nhm"  # to be continued
    pane.begin("two")
    assert [message["content"] for message in pane.messages()] == ["one", "1", "two"]


def test_a_busy_pane_is_not_asked_again() -> None:
    pane = Conversation(1, PaneParams())
    assert pane.beside_last("x", Origin.EDITED) is None
    pane.begin("now")
    assert pane.busy
    assert pane.beside_last("x", Origin.EDITED) is None


def test_a_tree_shows_one_branch_and_keeps_the_others() -> None:
    pane = Conversation(1, PaneParams())
    for prompt in ("one", "two"):
        answered(pane, prompt, "an answer", TurnStatus.DONE)
    one, two = pane.turns
    edited = pane.beside_last("two, edited", Origin.EDITED)
    assert edited is not None
    edited.status = TurnStatus.DONE
    answered(pane, "three", "an answer", TurnStatus.DONE)
    assert [turn.prompt for turn in pane.turns] == ["one", "two, edited", "three"]
    assert (pane.place(one), pane.place(two), pane.place(edited)) == ((1, 1), (1, 2), (2, 2))
    assert pane.fork_in_sight() is edited
    pane.show(two)
    assert pane.turns == [one, two]
    pane.show(edited)
    assert [turn.prompt for turn in pane.turns] == ["one", "two, edited", "three"]


def test_the_first_turn_has_siblings_too() -> None:
    pane = Conversation(1, PaneParams())
    answered(pane, "one", "1", TurnStatus.DONE)
    again = pane.beside_last("one", Origin.SAME_SEED)
    assert pane.turns == [again]
    assert len(pane.starts) == 2


def test_a_copied_branch_shares_nothing_with_its_source() -> None:
    pane = Conversation(1, PaneParams())
    for prompt in ("one", "two"):
        answered(pane, prompt, "an answer", TurnStatus.DONE)
    pane.turns[0].requests.append(RequestRecord(5, tokens=3))
    copies = pane.copied_turns()
    (record,) = copies[0].requests
    assert record.tokens == 3
    assert record.id != 5
    assert [turn.prompt for turn in copies] == ["one", "two"]
    assert copies[1].parent is copies[0]
    assert copies[0].children == [copies[1]]
    assert not {turn.id for turn in copies} & {turn.id for turn in pane.turns}
    copies[1].answer = "changed"
    assert pane.turns[1].answer == "an answer"


def test_targets() -> None:
    session = Session([PaneParams()] * 3)
    one, two, three = session.panes
    assert session.recipients() == [one, two, three]
    session.toggle_target()
    assert session.recipients() == [one]
    session.active = three
    assert session.recipients() == [three]
    session.toggle_chosen(one)
    session.toggle_chosen(two)
    assert session.recipients() == [one, two]
    session.close(one)
    assert session.recipients() == [two]
    session.toggle_chosen(two)
    assert session.target is Target.THIS
    assert session.recipients() == [three]


def test_a_session_always_has_a_pane() -> None:
    session = Session([])
    assert len(session.panes) == 1
    assert not session.close(session.panes[0])


def test_differences_are_told_against_another_pane() -> None:
    base = PaneParams()
    hot = PaneParams(
        name="hot", temperature=1.2, system="Speak like\na pirate, all the time", seed=7
    )
    assert hot.differences(base) == "sys: Speak like a pirate, al…  T1.2  seed 7"
    assert base.differences(hot) == "no sys  T0.7  any seed"
    assert base.differences(base) == ""


def test_only_fields_that_do_something_are_sent() -> None:
    assert set(PaneParams().sampling()) == {"temperature", "top_p", "max_tokens"}
    assert PaneParams(top_k=5, min_p=0.1, seed=0).sampling() | {
        "top_k": 5, "min_p": 0.1, "seed": 0,
    } == PaneParams(top_k=5, min_p=0.1, seed=0).sampling()  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("temperature", "warm", "between 0 and 2"),
        ("temperature", "inf", "between 0 and 2"),
        ("top_p", 0, "above 0, up to 1"),
        ("top_k", 1.5, "whole number"),
        ("top_k", -1, "whole number"),
        ("min_p", True, "between 0 and 1"),
        ("max_tokens", "0", "from 1"),
        ("seed", 2**64, "whole number"),
        ("name", "x" * 41, "at most 40"),
        ("tempo", 1, "has no 'tempo'"),
    ],
)
def test_absurd_parameters_are_one_line(key: str, value: object, words: str) -> None:
    with pytest.raises(ParamError, match=words) as refusal:
        updated(PaneParams(), {key: value})
    assert "\n" not in str(refusal.value)


def test_every_value_survives_the_form() -> None:
    params = PaneParams("n", "s", 0.25, 0.9, 40, 0.05, 12, 2**63)
    texts = {key: field.text(getattr(params, key)) for key, field in FIELDS.items()}
    assert updated(PaneParams(), texts) == params
    texts = {key: field.text(getattr(PaneParams(), key)) for key, field in FIELDS.items()}
    assert updated(params, texts) == PaneParams()
