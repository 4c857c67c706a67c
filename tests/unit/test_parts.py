"""Thoughts, text and tool calls, told apart wherever the pieces are cut."""

from __future__ import annotations

import json

import pytest

from engine.models.markup import Markup
from engine.server.parts import Called, Manner, Part, PartReader, Said, Thought

TOOLS = [{"type": "function", "function": {"name": "look"}}]
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "ü"}}\n</tool_call>'


def read(manner: Manner, *pieces: str) -> list[Part]:
    """All parts, neighbours of a kind joined."""
    reader = PartReader(manner)
    parts = [part for piece in pieces for part in reader.push(piece)] + reader.flush()
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Thought) and isinstance(last, Thought):
            joined[-1] = Thought(last.text + part.text)
        elif isinstance(part, Said) and isinstance(last, Said):
            joined[-1] = Said(last.text + part.text)
        else:
            joined.append(part)
    return joined


def cuts(text: str) -> list[tuple[str, ...]]:
    """The text in one piece, in two at every place, and character by character."""
    return [(text,), tuple(text), *((text[:at], text[at:]) for at in range(1, len(text)))]


@pytest.mark.parametrize("pieces", cuts("<think>\nhm</th\n</think>\n\nYes, a <think> tag."))
def test_thoughts_come_first_and_leave_no_tag(pieces: tuple[str, ...]) -> None:
    said = Said("Yes, a <think> tag.")
    assert read(Manner(Markup()), *pieces) == [Thought("hm</th\n"), said]


@pytest.mark.parametrize("pieces", cuts("hm</think>Yes"))
def test_thoughts_the_prompt_began(pieces: tuple[str, ...]) -> None:
    assert read(Manner(Markup(), thinking=True), *pieces) == [Thought("hm"), Said("Yes")]


@pytest.mark.parametrize("pieces", cuts("hm</thi"))
def test_thoughts_that_never_end_are_no_content(pieces: tuple[str, ...]) -> None:
    assert read(Manner(Markup(), thinking=True), *pieces) == [Thought("hm</thi")]
    assert read(Manner(Markup()), "<think>", *pieces) == [Thought("hm</thi")]


@pytest.mark.parametrize("text", ["", " \n", "<thi", " <", "a </think> b", CALL])
def test_plain_text_is_itself(text: str) -> None:
    for pieces in cuts(text):
        assert "".join(p.text for p in read(Manner(Markup()), *pieces)) == text  # type: ignore[union-attr]


@pytest.mark.parametrize("pieces", cuts(f"\n{CALL}\n{CALL}"))
def test_calls_have_ids_of_their_own_and_no_text_around(pieces: tuple[str, ...]) -> None:
    first, second = read(Manner(Markup(), tools=TOOLS), *pieces)
    assert isinstance(first, Called)
    assert isinstance(second, Called)
    assert json.loads(first.arguments) == {"at": "ü"}
    assert first.name == second.name == "look"
    assert first.id != second.id


@pytest.mark.parametrize("pieces", cuts(f"<think>hm</think>I look.{CALL}So."))
def test_everything_in_one_answer(pieces: tuple[str, ...]) -> None:
    thought, before, call, after = read(Manner(Markup(), tools=TOOLS), *pieces)
    assert (thought, before, after) == (Thought("hm"), Said("I look."), Said("So."))
    assert isinstance(call, Called)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>no JSON</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        "<tool_call>[]</tool_call>",
        '<tool_call>\n{"name": "look", "argu',
        "<tool_c",
    ],
)
def test_what_is_no_call_comes_out_as_it_was_written(text: str) -> None:
    assert read(Manner(Markup(), tools=TOOLS), "Well. ", text) == [Said(f"Well. {text}")]


def test_a_call_that_goes_on_to_the_end() -> None:
    markup = Markup(call_start="[TOOL_CALLS]", call_end="")
    text = '[TOOL_CALLS][{"name": "look", "arguments": "{}"}, {"name": "see"}]'
    names = [part.name for part in read(Manner(markup, tools=TOOLS), text)]  # type: ignore[union-attr]
    assert names == ["look", "see"]


def test_an_answer_that_is_nothing_but_a_call() -> None:
    manner = Manner(Markup(), thinking=True, tools=TOOLS, only_call=True)
    thought, call = read(manner, "hm</think>", '{"name": "look", ', '"arguments": {"n": 1}}')
    assert thought == Thought("hm")
    assert isinstance(call, Called)
    assert (call.name, json.loads(call.arguments)) == ("look", {"n": 1})
    assert read(manner, "hm</think>", '{"name": "lo') == [Thought("hm"), Said('{"name": "lo')]
