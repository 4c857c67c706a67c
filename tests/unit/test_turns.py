"""Messages on their way into a chat template."""

from __future__ import annotations

from typing import Any

import pytest

from engine.models.markup import Markup
from engine.server.errors import ApiError
from engine.server.turns import turns_of
from engine.server.wire import Message

TOOLS = [{"type": "function", "function": {"name": "add"}}]
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}],
}
RESULT = {"role": "tool", "content": "3", "tool_call_id": "c1"}


def messages(*turns: dict[str, Any]) -> list[Message]:
    return [Message.model_validate(turn) for turn in turns]


def test_a_template_that_knows_tools_gets_arguments_it_can_go_through() -> None:
    thoughtful = {**CALLED, "reasoning": "I add."}
    called, result = turns_of(messages(thoughtful, RESULT), Markup(knows_tools=True), TOOLS)
    assert called["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    ]
    assert called["content"] == ""
    assert called["reasoning_content"] == "I add."
    assert result == {"role": "tool", "content": "3", "tool_call_id": "c1"}


@pytest.mark.parametrize("arguments", ["{not json", "", "null"])
def test_arguments_that_are_no_json_stay_as_they_are(arguments: str) -> None:
    broken = {"name": "add", "arguments": arguments}
    chat = messages({**CALLED, "tool_calls": [{"id": "c1", "function": broken}]})
    (turn,) = turns_of(chat, Markup(knows_tools=True), TOOLS)
    assert turn["tool_calls"][0]["function"]["arguments"] == arguments


def test_another_template_is_told_in_words() -> None:
    asked = {"role": "user", "content": "1+2?"}
    system, user, called, result = turns_of(messages(asked, CALLED, RESULT), Markup(), TOOLS)
    assert '"name": "add"' in system["content"]
    assert user == asked
    assert called["content"].startswith("<tool_call>\n{")
    assert result == {"role": "user", "content": "<tool_response>\n3\n</tool_response>"}
    only_roles_and_texts = [set(turn) for turn in (system, user, called, result)]
    assert all(keys == {"role", "content"} for keys in only_roles_and_texts)


def test_the_system_turn_keeps_its_own_words() -> None:
    chat = messages({"role": "developer", "content": "Be brief."}, {"role": "user", "content": "x"})
    system, _ = turns_of(chat, Markup(), TOOLS)
    assert system["content"].startswith("Be brief.\n\n")
    assert turns_of(chat, Markup(), [])[0]["content"] == "Be brief."


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user"}, "messages[0].content"),
        ({"role": "tool", "content": "3"}, "messages[0].tool_call_id"),
        ({"role": "function", "content": "3"}, "messages[0]"),
    ],
)
def test_what_a_role_lacks_is_named(message: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as refusal:
        turns_of(messages(message), Markup(), [])
    assert refusal.value.body.param == param
