"""What a model folder's own format says about thoughts and tool calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from engine.models.tokenizer import Tokenizer
from engine.server.parts import Called, Manner, PartReader
from engine.text import RowText
from tests.tiny import CHATML, SPECIAL_TOKENS, write_folder

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"far": {"type": "integer"}}},
    },
}
LISTED = "{% if tools %}{{ tools | tojson }}{% endif %}"
HERMES = LISTED + "{# <tool_call> tool_call.name #}" + CHATML
CODER = LISTED + "{# <tool_call>\n<function= #}" + CHATML
PYTHONIC = LISTED + "{# <|tool_call_start|> #}" + CHATML


def loaded(folder: Path, template: str, *special: str) -> Tokenizer:
    """A tiny tokenizer with this template and these special tokens besides its own."""
    vocab = 320
    config: dict[str, Any] = {"vocab_size": vocab, "max_position_embeddings": 512}
    write_folder(folder, config, template)
    path = str(folder / "tokenizer.json")
    backend = tokenizers.Tokenizer.from_file(path)
    backend.add_special_tokens(list(special))
    backend.save(path)
    size = vocab + len(special)
    return Tokenizer.load(folder, {"vocab_size": size, "eos_token_id": 2})


@pytest.mark.parametrize(
    ("template", "call"),
    [
        (HERMES, '<tool_call>\n{"name": "look", "arguments": {"far": 3}}\n</tool_call>'),
        (
            CODER,
            "<tool_call>\n<function=look>\n<parameter=far>\n3\n</parameter>\n</function>\n"
            "</tool_call>",
        ),
        (PYTHONIC, "<|tool_call_start|>[look(far=3)]<|tool_call_end|>"),
    ],
)
def test_calls_are_read_as_the_model_s_family_writes_them(
    tmp_path: Path, template: str, call: str
) -> None:
    markup = loaded(tmp_path, template).markup
    assert markup.knows_tools
    reader = PartReader(Manner(markup, tools=[TOOL]))
    parts = [part for character in call for part in reader.push(character)] + reader.flush()
    (called,) = parts
    assert isinstance(called, Called)
    assert (called.name, json.loads(called.arguments)) == ("look", {"far": 3})


def test_the_template_is_told_of_the_tools(tmp_path: Path) -> None:
    tokenizer = loaded(tmp_path, HERMES)
    chat = [{"role": "user", "content": "hi"}]
    assert '"look"' in tokenizer.decode(tokenizer.chat(chat, tools=[TOOL]), special=True)
    assert '"look"' not in tokenizer.decode(tokenizer.chat(chat), special=True)


def test_a_template_that_knows_none_is_known_for_it(tmp_path: Path) -> None:
    markup = loaded(tmp_path, CHATML).markup
    assert not markup.knows_tools
    assert (markup.call_start, markup.think_start) == ("<tool_call>", "<think>")


def test_tags_that_are_special_tokens_are_text_and_turns_are_not(tmp_path: Path) -> None:
    tags = ("<|tool_call_start|>", "<|tool_call_end|>")
    tokenizer = loaded(tmp_path, PYTHONIC, *tags)
    call = f"{tags[0]}[look(far=3)]{tags[1]}"
    row = RowText(tokenizer.backend, (), tokenizer.shown)
    ids = tokenizer.encode(call + SPECIAL_TOKENS[2], special=False)
    text = "".join(row.push(id)[0] for id in ids) + row.flush()
    assert text == call


def test_without_such_tags_no_special_token_is_text(tmp_path: Path) -> None:
    assert loaded(tmp_path, HERMES, "<|other|>").shown == frozenset()
