"""Repeats: which requests are made, and how their answers are grouped and counted."""

from __future__ import annotations

import pytest

from dspark_tui.comparison.repeats import Attempt, Repeats, agreement, groups, problems
from dspark_tui.conversation.params import SEED_BITS, PaneParams
from dspark_tui.conversation.session import Conversation, TurnStatus

DRAWN = 1000


def pane(**params: object) -> Conversation:
    return Conversation(1, PaneParams(**params))  # type: ignore[arg-type]


def seeds(first: int | None, *, same: bool) -> list[int | None]:
    return [a.seed for a in Repeats("hi", [pane()], 3, lambda _: first, same=same).attempts]


def answered(*texts: str) -> list[Attempt]:
    """Attempts that are over, with whole answers but for those that are ""."""
    attempts = Repeats("hi", [pane()], len(texts), lambda _: 7, same=True).attempts
    for attempt, text in zip(attempts, texts, strict=True):
        attempt.over = True
        attempt.answer.text = text
        attempt.answer.problem = "" if text else "it broke off"
    return attempts


def test_each_attempt_has_the_next_seed_or_all_have_the_same() -> None:
    assert seeds(7, same=False) == [7, 8, 9]
    assert seeds(7, same=True) == [7, 7, 7]
    assert seeds(None, same=False) == [None] * 3
    largest = 2**SEED_BITS - 1
    assert seeds(largest, same=False) == [largest, 0, 1]


def test_answers_are_grouped_by_their_exact_text_the_most_frequent_first() -> None:
    attempts = answered("a", "b", "b", "", "b ")
    found = groups(attempts)
    assert [(group.text, len(group.attempts)) for group in found] == [("b", 2), ("a", 1), ("b ", 1)]
    assert found[0].attempts == (attempts[1], attempts[2])


def test_what_is_not_whole_is_counted_by_its_reason() -> None:
    attempts = answered("a", "", "")
    attempts[0].over = False
    assert problems(attempts) == {"it broke off": 2}


def test_thoughts_don_t_make_answers_differ() -> None:
    attempts = answered("<think>hm</think>42", "<think>let me see</think>42")
    assert [group.text for group in groups(attempts)] == ["42"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a"], ""),
        (["a", ""], ""),
        (["a", "a", "a", "b", "a"], "4 of 5 identical"),
        (["a", "a", "", "b"], "2 of 3 identical"),
        (["a", "a"], "2 of 2 identical"),
        (["a", "b", "c"], "all 3 differ"),
    ],
)
def test_agreement_in_words(texts: list[str], words: str) -> None:
    assert agreement(answered(*texts)) == words


async def test_every_request_has_the_pane_s_history_and_not_the_repeated_prompt_twice() -> None:
    asked: list[tuple[list[dict[str, str]], int, str]] = []

    class Client:
        async def chat(self, messages, sampling, source):  # type: ignore[no-untyped-def]
            asked.append((messages, sampling["seed"], source))
            return
            yield

    async def client_of(_: Conversation) -> object:
        return Client()

    one = pane(name="control", system="Be brief.")
    for prompt in ("first", "last"):
        turn = one.begin(prompt)
        turn.answer, turn.status = f"answer to {prompt}", TurnStatus.DONE
    for prompt in ("last", "a new one"):
        await Repeats(prompt, [one], 2, lambda _: DRAWN, same=False).run(client_of)  # type: ignore[arg-type]
    again, new = asked[0], asked[2]
    assert [m["content"] for m in again[0]] == ["Be brief.", "first", "answer to first", "last"]
    assert [m["content"] for m in new[0]][-2:] == ["answer to last", "a new one"]
    assert [seed for _, seed, _ in asked] == [DRAWN, DRAWN + 1] * 2
    assert [source for *_, source in asked[:2]] == ["1 control #1", "1 control #2"]
    assert [turn.prompt for turn in one.turns] == ["first", "last"]
