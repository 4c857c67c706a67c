"""A broadcast's figures as a table: on screen, and as CSV. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from textual.content import Content

from dspark_tui.appearance.roles import FAINT
from dspark_tui.comparison.broadcasts import Broadcast, Reply
from dspark_tui.conversation.request_record import ASKED_WITH
from dspark_tui.text.foreign import drawable
from dspark_tui.text.wrap import cut

NAME_WIDTHS = 10, 48
"""The least and the most columns a pane's name gets."""
VOTED = " voted"
GAP = 2

CSV_COLUMNS = (
    "prompt", "pane", "name", "turn", "engine", *ASKED_WITH, "words", "tokens", "prompt_tokens",
    "cached_tokens", "ttft", "completion_time", "state", "finish_reason", "vote", "blind", "answer",
)  # fmt: skip
"""Times are seconds from sending the request. turn: the id that the pane's own export has for it,
with what was said before."""


class Column(Struct, frozen=True):
    """value: what it shows of a reply; None where that is not known."""

    title: str
    width: int
    value: Callable[[Reply], int | float | str | None]


COLUMNS = (
    Column("words", 6, lambda reply: reply.words),
    Column("tokens", 7, lambda reply: reply.record.tokens),
    Column("cached", 7, lambda reply: reply.record.cached_tokens),
    Column("ttft", 7, lambda reply: reply.record.first),
    Column("time", 8, lambda reply: reply.record.seconds),
)


def table(broadcast: Broadcast, width: int, dash: str) -> Content:
    """A line for each pane, under its alias while the panes are hidden. dash: for the unknown.

    Where there is little room, the first columns are left out.
    """
    least, most = NAME_WIDTHS
    longest = max(len(reply.ending) for reply in broadcast.replies)
    columns = [*COLUMNS, Column("end", longest + GAP, lambda reply: reply.ending)]
    while columns[1:] and width - _cells(columns) < least:
        del columns[0]
    room = min(most, max(least, width - _cells(columns)))
    header = f"{'pane':<{room}}" + "".join(f"{c.title:>{c.width}}" for c in columns)
    lines = [Content.styled(header, FAINT)]
    for reply in sorted(broadcast.replies, key=lambda reply: reply.pane.digit):
        voted = broadcast.vote is not None and reply.candidate in broadcast.vote.winners
        mark = VOTED if voted else ""
        name = cut(reply.pane.alias or reply.title, room - len(mark))
        cells = "".join(f"{_shown(c.value(reply), dash):>{c.width}}" for c in columns)
        lines.append(Content.assemble((name, "bold"), (mark, "bold $role-added"), cells))
    return Content("\n").join(lines)


def _cells(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns)


def csv_rows(broadcast: Broadcast) -> Iterator[tuple[object, ...]]:
    """One row for each pane; what is not known is empty."""
    vote = broadcast.vote
    for reply in broadcast.replies:
        record = reply.record
        yield (
            broadcast.prompt, reply.pane.number, reply.pane.params.name,
            "" if reply.run is None else reply.run.turn.id, reply.engine, *record.asked_with,
            reply.words, record.tokens, record.prompt_tokens, record.cached_tokens, record.first,
            record.ended, reply.ending, record.reason,
            "" if vote is None else reply.candidate in vote.winners,
            "" if vote is None else vote.blind, reply.answer,
        )  # fmt: skip


def _shown(value: int | float | str | None, dash: str) -> str:
    match value:
        case None:
            return dash
        case float():
            return f"{value:.2f}"
        case int():
            return f"{value:,}"
        case _:
            return drawable(str(value))
