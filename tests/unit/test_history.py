"""Going back through prompts, and finding them by their words."""

from __future__ import annotations

from dspark_tui.conversation.history import PromptSearch, Recall
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.pastes import Draft
from dspark_tui.conversation.session import Session

DRAFT = Draft("half", caret=(0, 2))


def session(*prompts: str) -> Session:
    made = Session([PaneParams()])
    for prompt in prompts:
        made.remember(prompt)
    return made


def test_the_draft_is_below_the_newest_prompt() -> None:
    recall = Recall(session("old", "new"))
    steps = [recall.step(by, DRAFT) for by in (-1, -1, -1, +1, +1)]
    assert steps == ["new", "old", "old", "new", DRAFT]
    assert recall.step(+1, DRAFT) is None


def test_without_prompts_there_is_nothing_to_go_to() -> None:
    recall = Recall(session())
    assert recall.step(-1, DRAFT) is None
    assert recall.step(+1, DRAFT) is None


def test_a_prompt_that_is_changed_becomes_the_draft_and_the_draft_a_prompt() -> None:
    chat = session("old", "new")
    recall = Recall(chat)
    recall.step(-1, DRAFT)
    recall.forget()
    changed = Draft("new!")
    assert [recall.step(-1, changed) for _ in range(3)] == ["half", "new", "old"]
    assert [recall.step(+1, changed) for _ in range(3)] == ["new", "half", changed]
    recall.forget()
    assert chat.history == ["old", "new", "half"]


def test_a_jump_is_a_place_to_go_on_from() -> None:
    recall = Recall(session("a", "b", "c"))
    assert recall.jump(1, DRAFT) == "b"
    assert recall.step(-1, DRAFT) == "a"
    assert [recall.step(+1, DRAFT) for _ in range(3)] == ["b", "c", DRAFT]


def test_prompts_sent_meanwhile_are_below() -> None:
    chat = session("a")
    recall = Recall(chat)
    recall.step(-1, DRAFT)
    chat.remember("b")
    assert recall.step(+1, DRAFT) == "b"


def test_every_word_must_be_somewhere_in_the_prompt() -> None:
    search = PromptSearch(["Red apple", "green PEAR\nand apple", "pear"])
    assert search.places("") == [2, 1, 0]
    assert search.places("apple") == [1, 0]
    assert search.places("APP pear") == [1]
    assert search.places("plum") == []
