"""What a row's client is sent, token by token, and what it gets at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.load import LoadedModel, load
from engine.text import REPLACEMENT
from engine.types import Finish, FinishReason
from tests.engine.conftest import handed

SCRIPTS = "👩‍👩‍👧 ďábel 漢字"
STOP = "TRE\nAAAA"


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> LoadedModel:
    return load(tiny_folder, "tiny")


@pytest.mark.parametrize("ended_by", [FinishReason.STOP, FinishReason.LENGTH])
def test_text_held_for_a_stop_string_is_delivered_at_the_end(
    model: LoadedModel, ended_by: FinishReason
) -> None:
    (eos,) = model.tokenizer.eos
    tokens = model.tokenizer.encode("a TRE")
    client = handed(
        model, [*tokens, eos] if ended_by is FinishReason.STOP else tokens, stop=(STOP,)
    )
    assert client.text == "a TRE"
    last = client.updates[-1]
    assert isinstance(last, Finish)
    assert (last.reason, last.stop) == (ended_by, None)


def test_a_character_of_many_tokens_is_sent_whole(model: LoadedModel) -> None:
    tokens = model.tokenizer.encode(SCRIPTS)
    assert len(tokens) > 2 * len(SCRIPTS), "most characters take several tokens"
    client = handed(model, tokens)
    assert client.text == SCRIPTS
    assert client.tokens == len(tokens)


def test_only_an_end_inside_a_character_shows_it_as_replaced(model: LoadedModel) -> None:
    client = handed(model, model.tokenizer.encode(SCRIPTS)[:-1])
    assert client.text.rstrip(REPLACEMENT) == SCRIPTS[:-1]
    assert client.text.endswith(REPLACEMENT)
