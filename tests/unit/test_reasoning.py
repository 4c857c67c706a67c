"""Reasoning told from the answer, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark_tui.conversation.reasoning import Part, Splitter, answer_of


def split(pieces: list[str]) -> tuple[str, str]:
    """(thought, answer) of a text that comes in pieces; line ends after a thought don't count."""
    splitter, texts = Splitter(), {Part.THOUGHT: "", Part.ANSWER: ""}
    for piece in [*(p for text in pieces for p in splitter.push(text)), *splitter.flush()]:
        if piece.recalls:
            texts = {Part.THOUGHT: texts[Part.ANSWER], Part.ANSWER: ""}
        texts[piece.part] += piece.text
    return texts[Part.THOUGHT].rstrip("\n"), texts[Part.ANSWER]


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("plain", "", "plain"),
        ("", "", ""),
        ("<think>\nhm\n</think>\n\n42", "hm", "42"),
        ("\n <think>a</think>b", "a", "b"),
        ("hm\nhm\n</think>\n\n42", "hm\nhm", "42"),  # opened in the prompt
        ("</think>42", "", "42"),
        ("<think>\n\n</think>\n\n42", "", "42"),
        ("<think>cut o", "cut o", ""),
        ("<think>a</thin", "a</thin", ""),
        ("<thin", "", "<thin"),
        ("the `</think>` tag", "", "the `</think>` tag"),
        ("say <think> and\n</thinking>", "", "say <think> and\n</thinking>"),
        ("<think>a</think>b\n</think>c", "a", "b\n</think>c"),
    ],
)
def test_text(text: str, thought: str, answer: str) -> None:
    assert split([text]) == (thought, answer)
    assert split(list(text)) == (thought, answer)
    assert answer_of(text) == answer


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "\n", "a ", "b"])),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_where_the_text_is_cut_makes_no_difference(words: list[str], sizes: list[int]) -> None:
    text, pieces, at = "".join(words), [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    assert split(pieces) == split([text])


def test_nothing_is_held_back_that_is_no_tag() -> None:
    splitter = Splitter()
    assert [piece.text for piece in splitter.push("line\n")] == ["line\n"]
    assert [piece.text for piece in splitter.push("more <b")] == ["more <b"]
