"""Repeats: which requests are made, how their answers are grouped and counted, what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dspark_tui.comparison.broadcast_memory import remembered
from dspark_tui.comparison.repeats import Attempt, Repeats, agreement, groups, problems
from dspark_tui.conversation.params import SEED_BITS, PaneParams
from dspark_tui.conversation.session import Conversation, Session, Target
from dspark_tui.conversation.turns import Origin, Turn, TurnStatus
from dspark_tui.engines.chat_updates import ChatUpdate, Ended, Text
from dspark_tui.engines.engines import Engines
from dspark_tui.engines.link import EngineLink
from tests.tui.still import NOWHERE

SEED = 7


class Client:
    """Answers every request with its seed, once it may."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[dict[str, str]], int | None, str]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def chat(
        self, messages: list[dict[str, str]], sampling: dict[str, Any], source: str
    ) -> AsyncIterator[ChatUpdate]:
        self.asked.append((messages, sampling.get("seed"), source))
        yield Text(f"answer {sampling.get('seed')}")
        await self.may_end.wait()
        yield Ended("stop", 3, 5, 0)


class Link(EngineLink):
    batch_hidden = False

    def __init__(self, client: Client) -> None:
        super().__init__(NOWHERE, "")
        self._client = client  # type: ignore[assignment]
        self.ready.set()

    def revive(self) -> None: ...


class OneEngine(Engines):
    def __init__(self, *, hidden: bool = False) -> None:
        super().__init__(lambda _: NOWHERE)
        self.client = Client()
        self.link = Link(self.client)
        self.link.batch_hidden = hidden

    def _new_link(self, name: str) -> EngineLink:
        return self.link


def pane(**params: object) -> Conversation:
    return Conversation(1, PaneParams(**params))  # type: ignore[arg-type]


def spoken(*prompts: str, **params: object) -> Conversation:
    """A pane whose prompts are all answered."""
    conversation = pane(**params)
    for prompt in prompts:
        turn = conversation.begin(prompt)
        turn.answer, turn.status = f"answer to {prompt}", TurnStatus.DONE
    return conversation


async def asked(
    conversation: Conversation, prompt: str, times: int = 2, *, same: bool = False
) -> Repeats:
    """Repeats that have all their answers."""
    repeats = Repeats(prompt, [conversation], OneEngine())
    repeats.ask(times, same=same)
    while repeats.running:
        await asyncio.sleep(0)
    return repeats


def answered(*texts: str) -> list[Attempt]:
    """Attempts that are over, with whole answers but for those that are ""."""
    turns = [
        Turn("hi", text, TurnStatus.DONE if text else TurnStatus.STOPPED, "" if text else "broken")
        for text in texts
    ]
    return [Attempt(pane(), number, turn) for number, turn in enumerate(turns, 1)]


@pytest.mark.parametrize(
    ("own", "same", "seeds"),
    [
        (SEED, False, [7, 8, 9]),
        (SEED, True, [7, 7, 7]),
        (2**SEED_BITS - 1, False, [2**SEED_BITS - 1, 0, 1]),
    ],
)
async def test_each_attempt_has_the_next_seed_or_all_have_the_same(
    own: int, same: bool, seeds: list[int]
) -> None:
    repeats = await asked(pane(seed=own), "hi", 3, same=same)
    assert [attempt.turn.seed for attempt in repeats.attempts] == seeds


@pytest.mark.parametrize(("hidden", "distinct"), [(False, 3), (True, 1)])
async def test_a_seed_is_drawn_where_the_pane_has_none_but_not_for_a_hidden_batch(
    hidden: bool, distinct: int
) -> None:
    engines = OneEngine(hidden=hidden)
    repeats = Repeats("hi", [pane()], engines)
    repeats.ask(3, same=False)
    while repeats.running:
        await asyncio.sleep(0)
    seeds = {seed for _, seed, _ in engines.client.asked}
    assert len(seeds) == distinct
    assert (seeds == {None}) is hidden


def test_answers_are_grouped_by_their_exact_text_the_most_frequent_first() -> None:
    attempts = answered("a", "b", "b", "", "b ")
    found = groups(attempts)
    assert [(group.text, len(group.attempts)) for group in found] == [("b", 2), ("a", 1), ("b ", 1)]
    assert found[0].attempts == (attempts[1], attempts[2])


def test_what_is_not_whole_is_counted_by_its_reason() -> None:
    attempts = answered("a", "", "")
    attempts[0].turn.status = TurnStatus.RUNNING
    assert problems(attempts) == {"broken": 2}


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
    one = spoken("first", "last", name="control", system="Be brief.", seed=SEED)
    engines = OneEngine()
    for prompt in ("last", "a new one"):
        repeats = Repeats(prompt, [one], engines)
        repeats.ask(2, same=False)
        while repeats.running:
            await asyncio.sleep(0)
    again, new = engines.client.asked[0], engines.client.asked[2]
    assert [m["content"] for m in again[0]] == ["Be brief.", "first", "answer to first", "last"]
    assert [m["content"] for m in new[0]][-2:] == ["answer to last", "a new one"]
    assert [seed for _, seed, _ in engines.client.asked] == [SEED, SEED + 1] * 2
    assert [source for *_, source in engines.client.asked[:2]] == ["1 control #1", "1 control #2"]
    assert [turn.prompt for turn in one.turns] == ["first", "last"]


async def test_the_answers_are_siblings_of_the_turn_that_is_shown_and_it_stays_shown() -> None:
    one = spoken("first", "last")
    shown = list(one.turns)
    repeats = await asked(one, "last", 3)
    assert one.turns == shown
    assert one.place(shown[-1]) == (1, 4)
    kept = one.siblings(shown[-1])[1:]
    assert kept == [attempt.turn for attempt in repeats.attempts]
    assert {(turn.origin, turn.status) for turn in kept} == {(Origin.REPEAT, TurnStatus.DONE)}
    assert [turn.requests[0].tokens for turn in kept] == [3, 3, 3]


async def test_a_prompt_that_was_never_sent_is_repeated_after_what_is_shown_and_not_shown() -> None:
    one = spoken("first")
    shown = list(one.turns)
    await asked(one, "new")
    one.show(shown[0])
    assert one.turns == shown
    sent = one.begin("new")
    assert one.place(sent) == (3, 3)


async def test_a_repeat_that_somebody_went_on_from_is_shown_again_with_what_followed() -> None:
    one = spoken("first")
    repeats = await asked(one, "new", 3)
    one.show(repeats.attempts[1].turn)
    went_on = one.begin("and then?")
    one.show(one.turns[0])
    assert one.turns[-2:] == [repeats.attempts[1].turn, went_on]


async def test_the_latest_repeats_of_a_prompt_are_found_again_where_it_was_asked() -> None:
    one = spoken("first")
    early = await asked(one, "new", 3)
    for attempt in early.attempts:  # as if a minute ago
        attempt.turn.id -= 60 * 10**9
    late = await asked(one, "new", 2)
    found = Repeats("new", [one], OneEngine())
    assert [a.turn for a in found.attempts] == [a.turn for a in late.attempts]
    assert [a.number for a in found.attempts] == [1, 2]
    assert not found.running
    assert not Repeats("other", [one], OneEngine()).attempts
    one.begin("first").status = TurnStatus.DONE
    assert not Repeats("new", [one], OneEngine()).attempts


async def test_what_is_stopped_keeps_its_text_and_says_so() -> None:
    engines = OneEngine()
    engines.client.may_end.clear()
    repeats = Repeats("hi", [pane(seed=SEED)], engines)
    repeats.ask(2, same=True)
    while not all(attempt.turn.answer for attempt in repeats.attempts):
        await asyncio.sleep(0)
    assert len(repeats.receiving) == 2
    repeats.stop()
    assert not repeats.running
    assert not repeats.receiving
    await repeats.close()
    assert problems(repeats.attempts) == {"stopped": 2}
    assert {attempt.turn.answer for attempt in repeats.attempts} == {"answer 7"}


async def test_repeats_are_no_broadcast() -> None:
    session = Session([PaneParams(), PaneParams()], Target.ALL)
    repeats = Repeats("hi", session.panes, OneEngine())
    repeats.ask(1, same=True)
    while repeats.running:
        await asyncio.sleep(0)
    assert remembered(session) == []
