"""Answers as linear text, for pipes and screen readers: whole ones, labelled, no drawing."""

from __future__ import annotations

import sys

from dspark_tui.batch.ending import Ending, ending_by
from dspark_tui.conversation.answer import Answer
from dspark_tui.conversation.params import PaneParams
from dspark_tui.text.foreign import harmless


def heading(number: int, params: PaneParams, answer: Answer) -> str:
    """The line above an answer, e.g. "Pane 2, cold (T0): 34 tokens in 1.2 s"."""
    name = f", {params.name}" if params.name else ""
    differs = " ".join(params.differences(PaneParams()).split())
    return f"Pane {number}{name}{f' ({differs})' if differs else ''}: {outcome(answer)}"


def outcome(answer: Answer) -> str:
    """How it ended, in words."""
    if answer.problem:
        return answer.problem
    tokens = "" if answer.tokens is None else f"{answer.tokens} tokens in "
    ending = ending_by(answer.reason)
    how = "" if ending is Ending.DONE else f", {ending}"
    return f"{tokens}{answer.completion_time or 0:.1f} s{how}"


def show(text: str) -> None:
    """Write it out: as it is into a file or pipe, without control codes on a terminal."""
    print(harmless(text) if sys.stdout.isatty() else text, flush=True)
