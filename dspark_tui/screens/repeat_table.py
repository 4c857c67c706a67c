"""Repeats as lines of text and as a table for CSV. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from dspark_tui.comparison.broadcasts import aggregate
from dspark_tui.comparison.repeats import Group, Repeats, agreement, groups, problems
from dspark_tui.conversation.request_record import ASKED_WITH
from dspark_tui.conversation.session import Conversation
from dspark_tui.text.foreign import drawable

CSV_COLUMNS = (
    "prompt", "pane", "name", "turn", "number", "seed", *ASKED_WITH, "group", "tokens", "ttft",
    "completion_time", "finish_reason", "error", "answer",
)  # fmt: skip
"""Times are seconds from sending the request."""

FIRST_CHARACTERS = 200


def progress(repeats: Repeats) -> str:
    """How far all of them are, and the honest aggregate."""
    attempts = repeats.attempts
    parts = [f"{sum(attempt.whole for attempt in attempts)} of {len(attempts)} answered"]
    if failed := problems(attempts).total():
        parts.append(f"{failed} stopped or failed")
    if (total := aggregate([attempt.record for attempt in attempts])) is not None:
        parts.append(f"{total.tokens:,} tok / {total.seconds:.2f} s = {total.rate:.1f} tok/s")
    return "   ".join(parts)


def heading(repeats: Repeats, pane: Conversation) -> Content:
    """A pane and how far its answers agree, or how many there are."""
    attempts = repeats.of(pane)
    whole = sum(attempt.whole for attempt in attempts)
    state = agreement(attempts) or f"{whole} of {len(attempts)} answered"
    return Content.assemble((drawable(pane.label), "bold"), f"   {state}")


def entry(group: Group) -> Content:
    """An answer: how often it came, how long it is, a seed that brings it, its first words."""
    first = group.attempts[0]
    size = f"{first.record.tokens:,} tok"
    seed = "" if first.turn.seed is None else f"seed {first.turn.seed}   "
    words = drawable(" ".join(group.text[:FIRST_CHARACTERS].split()))
    return Content.assemble((_times(len(group.attempts)), "bold"), f"{size:>11}   {seed}{words}")


def trouble(problem: str, times: int) -> Content:
    """Answers that are not whole, and why."""
    return Content(f"{_times(times)}   {drawable(problem)}")


def _times(count: int) -> str:
    return f"{count:>4}x"


def csv_rows(repeats: Repeats) -> Iterator[tuple[object, ...]]:
    """A row for each attempt; group 1 is the pane's most frequent answer."""
    for pane in repeats.panes:
        attempts = repeats.of(pane)
        found = {
            id(attempt): number
            for number, group in enumerate(groups(attempts), 1)
            for attempt in group.attempts
        }
        for attempt in attempts:
            turn, record = attempt.turn, attempt.record
            yield (
                repeats.prompt, pane.number, pane.params.name, turn.id, attempt.number, turn.seed,
                *record.asked_with, found.get(id(attempt), ""), record.tokens, record.first,
                record.ended, record.reason, attempt.problem, turn.answer,
            )  # fmt: skip
