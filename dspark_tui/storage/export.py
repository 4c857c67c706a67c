"""A session's conversations and requests as files for other programs and for people.

The file's name says which: `.csv` and `.jsonl` give every text back exactly, `.md` is to be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dspark_tui.conversation.params import FIELDS
from dspark_tui.conversation.request_record import ASKED_WITH, RequestRecord
from dspark_tui.conversation.session import Conversation
from dspark_tui.conversation.turns import Turn
from dspark_tui.experiments.result_table import FORMATS, Row
from dspark_tui.paths import tilde, write_atomically
from dspark_tui.storage.workspace import every_turn
from dspark_tui.text.foreign import encodable
from dspark_tui.text.lightmark import Fence, fence_after

if TYPE_CHECKING:
    from dspark_tui.conversation.run import Run

MESSAGE_COLUMNS = (
    "pane", "name", "turn", "after", "shown", "role", "text", "status", "origin", "seed",
    *ASKED_WITH,
)  # fmt: skip
"""after: the turn before. shown: it is on the branch the pane shows."""

REQUEST_COLUMNS = (
    "pane", "name", "turn", "request", *ASKED_WITH, "state", "prompt_tokens", "cached_tokens",
    "tokens", "start", "end", "waited", "prefill", "first_token", "total", "reason",
)  # fmt: skip
"""start, end: UTC. waited, prefill, first_token, total: seconds."""


class ExportError(ValueError):
    """Nothing was written. `str()` is one line that says why."""


def messages_text(panes: Iterable[Conversation], suffix: str) -> str:
    """Everything said, all branches of it; `.md` has the shown ones. Raises ExportError."""
    if suffix == ".md":
        return "\n\n".join(_markdown(pane) for pane in panes) + "\n"
    return _table(suffix, MESSAGE_COLUMNS, _message_rows(panes))


def requests_text(panes: Iterable[Conversation], runs: Iterable[Run], suffix: str) -> str:
    """A row for each request. runs: those that still receive. Raises ExportError."""
    return _table(suffix, REQUEST_COLUMNS, _request_rows(panes, runs))


def write(path: Path, text: str) -> None:
    """Write the file, into a folder that is there. Raises ExportError."""
    try:
        if not path.parent.is_dir():  # a slip of the fingers makes no folder
            raise ExportError(f"there is no folder {tilde(path.parent)}")
        write_atomically(path, encodable(text))
    except OSError as error:
        raise ExportError(f"{tilde(path)} can't be written: {error.strerror or error}") from None


def _table(suffix: str, columns: tuple[str, ...], rows: Iterable[Row]) -> str:
    kind = FORMATS.get(suffix)
    if kind is None:
        raise ExportError(f"the file's name must end in one of {', '.join(FORMATS)}")
    table = kind(columns)
    return table.head + "".join(table.line(row) for row in rows)


def _message_rows(panes: Iterable[Conversation]) -> Iterator[Row]:
    for pane in panes:
        for turn in every_turn(pane):
            common = _asked_with(_first(turn)) | {
                "pane": pane.number,
                "name": pane.params.name,
                "turn": turn.id,
                "after": turn.parent.id if turn.parent else None,
                "shown": turn in pane.turns,
                "status": str(turn.state),
                "origin": turn.origin.value,
                "seed": turn.seed,
            }
            yield common | {"role": "user", "text": turn.prompt}
            yield common | {"role": "assistant", "text": turn.answer}


def _request_rows(panes: Iterable[Conversation], runs: Iterable[Run]) -> Iterator[Row]:
    running = {run.turn.id: run.record() for run in runs}
    for pane in panes:
        for turn in every_turn(pane):
            for record in turn.requests:
                yield _request_row(pane, turn, record)
            latest = running.get(turn.id)
            if latest is not None and latest not in turn.requests:  # it may just have ended
                yield _request_row(pane, turn, latest)


def _request_row(pane: Conversation, turn: Turn, record: RequestRecord) -> Row:
    return _asked_with(record) | {
        "pane": pane.number,
        "name": pane.params.name,
        "turn": turn.id,
        "request": record.request,
        "state": "running" if record.ended is None else str(turn.state),
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "tokens": record.tokens,
        "start": _moment(record.sent),
        "end": None if record.ended is None else _moment(record.sent + record.ended),
        "waited": record.waited,
        "prefill": record.prefill,
        "first_token": record.first,
        "total": record.ended,
        "reason": record.reason,
    }


def _moment(seconds: float) -> str | None:
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _asked_with(record: RequestRecord | None) -> Row:
    values = (None,) * len(ASKED_WITH) if record is None else record.asked_with
    return dict(zip(ASKED_WITH, values, strict=True))


def _first(turn: Turn) -> RequestRecord | None:
    """The request that asked; later ones, if any, only continued its answer."""
    return turn.requests[0] if turn.requests else None


def _markdown(pane: Conversation) -> str:
    """Prompts quoted, answers as the models wrote them, and what each was asked with."""
    parts, said = [f"# Pane {pane.label}"], ""
    for turn in pane.turns:
        first = _first(turn)
        system = first.system if first is not None else None
        if system is None:  # nobody noted it
            system = said or pane.params.system
        if system != said:
            parts.append(f"System: {system or 'none any more'}")
            said = system
        parts += ["> " + turn.prompt.replace("\n", "\n> "), _fenced(turn.answer)]
        if turn.requests:
            parts.append(f"*{turn.state}, {_figures(turn.requests[-1])}*")
    return "\n\n".join(part for part in parts if part)


def _fenced(answer: str) -> str:
    """The answer with its last code block closed, which else would swallow what follows."""
    fence: Fence | None = None
    for line in answer.split("\n"):
        fence = fence_after(line, fence)
    return answer if fence is None else f"{answer.rstrip()}\n{fence.sign}"


def _figures(record: RequestRecord) -> str:
    """How it went, its parameters as titles have them, and the model."""
    sent = json.loads(record.sampling or "{}")
    short = (field.short(sent[key]) for key, field in FIELDS.items() if key in sent)
    return "  ".join(part for part in (record.summary(), *short, record.model) if part)
