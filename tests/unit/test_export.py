"""Exports: every text is read back as it was, every request has its row."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, TurnStatus
from dspark_tui.conversation.turns import Origin
from dspark_tui.storage.export import ExportError, messages_text, requests_text, write

ODD = "=1+1\n\"quoted\", 'and'\r\n\ttab | pipe ; 光 👩‍👩‍👧 \u202e \x1b[31m\n\nend "

SENT = '{"temperature": 0.0, "top_p": 1.0, "max_tokens": 50, "seed": 7}'


@pytest.fixture
def pane() -> Conversation:
    pane = Conversation(2, PaneParams(name="terse"))
    for prompt in ("first", ODD):
        turn = pane.begin(prompt)
        turn.answer, turn.status, turn.seed = ODD, TurnStatus.DONE, 7
        turn.requests.append(
            RequestRecord(
                1, "r1", "m", SENT, 1_000_000.5, 0.5, 1.5, 3.5, 4.0, 12, 3, 41, "stop", "Be brief."
            )
        )
    edited = pane.beside_last("edited", Origin.EDITED)
    assert edited is not None
    edited.status = TurnStatus.STOPPED
    return pane


def rows(text: str, suffix: str) -> list[dict[str, object]]:
    if suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))  # type: ignore[arg-type]
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_texts_come_back_exactly_with_their_pane_s_name(
    pane: Conversation, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"out{suffix}"
    write(path, messages_text([pane], suffix))
    found = rows(path.read_bytes().decode(), suffix)
    assert [row["text"] for row in found] == ["first", ODD, ODD, ODD, "edited", ""]
    assert {row["name"] for row in found} == {"terse"}
    assert [row["role"] for row in found[:2]] == ["user", "assistant"]
    assert [str(row["shown"]) for row in found[::2]] == ["True", "False", "True"]
    assert found[4]["origin"] == "edited"
    assert str(found[4]["after"]) == str(found[0]["turn"])


def test_markdown_is_the_shown_branch_with_prompts_quoted(pane: Conversation) -> None:
    text = messages_text([pane], ".md")
    assert text.startswith("# Pane 2 terse\n\nSystem: Be brief.\n\n> first\n\n=1+1\n")
    assert "> edited" in text
    assert text.count("=1+1") == 1
    assert "41 tok" in text


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_each_request_has_state_prefill_tokens_start_end_and_total(
    pane: Conversation, suffix: str
) -> None:
    first, second = rows(requests_text([pane], [], suffix), suffix)
    assert (first["name"], first["state"]) == ("terse", "done")
    assert float(str(first["prefill"])) == 1.0
    assert float(str(first["total"])) == 4.0
    assert str(first["tokens"]) == "41"
    assert first["start"] == "1970-01-12T13:46:40.500+00:00"
    assert first["end"] == "1970-01-12T13:46:44.500+00:00"
    assert second["turn"] != first["turn"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_row_has_what_it_takes_to_ask_again(pane: Conversation, suffix: str) -> None:
    for row in (
        rows(requests_text([pane], [], suffix), suffix)[0],
        rows(messages_text([pane], suffix), suffix)[0],
    ):
        assert (row["model"], row["system"], row["sampling"]) == ("m", "Be brief.", SENT)


def test_markdown_says_with_what_each_answer_was_asked_for(pane: Conversation) -> None:
    turn = pane.begin("without")
    turn.status = TurnStatus.DONE
    turn.requests.append(RequestRecord(2, model="m", sampling='{"temperature": 1.5}', system=""))
    text = messages_text([pane], ".md")
    assert "*done, 41 tok  20.0 tok/s  4.0 s  T0  top-p 1  max 50  seed 7  m*" in text
    assert "> edited\n\nSystem: none any more\n\n> without\n\n*done, T1.5  m*" in text


@pytest.mark.parametrize("sign", ["```", "~~~~"])
def test_a_code_block_that_was_cut_off_ends_with_its_answer(pane: Conversation, sign: str) -> None:
    whole, cut = f"```\na\n```\n\n{sign}\nb\n{sign}", f"so:\n\n{sign}python\nprint(1)"
    for answer in (whole, cut):
        pane.begin("go on").answer = answer
    text = messages_text([pane], ".md")
    assert f"> go on\n\n{whole}\n\n> go on\n\n{cut}\n{sign}\n" in text
    assert cut in [row["text"] for row in rows(messages_text([pane], ".jsonl"), ".jsonl")]


def test_requests_are_a_table_in_markdown_too(pane: Conversation) -> None:
    head, rule, *lines = requests_text([pane], [], ".md").splitlines()
    assert head.count("|") == rule.count("|") == lines[0].count("|")


def test_another_ending_and_an_impossible_place_are_one_line(
    pane: Conversation, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=r"must end in one of \.csv, \.jsonl, \.md"):
        messages_text([pane], ".xlsx")
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match=r"there is no folder .*/file$"):
        write(tmp_path / "file" / "out.md", "text")
    with pytest.raises(ExportError, match=r"there is no folder .*/missing$"):
        write(tmp_path / "missing" / "out.md", "text")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(ExportError, match=r"folder\.md can't be written"):
        write(tmp_path / "folder.md", "text")
