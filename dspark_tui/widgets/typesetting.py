"""Finished answers set in type as Markdown, off the screen's thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dspark_tui.text.lines import Line
from dspark_tui.widgets.chat_text import Draft

log = logging.getLogger(__name__)

BATCH = 20_000
"""Characters set before they are shown: the first ones are those in sight."""

_THREAD = ThreadPoolExecutor(1, "typesetting")
"""One for all transcripts: more would only take turns with each other and with the screen."""

SetDraft = tuple[Draft, Sequence[Line]]


async def set_drafts(drafts: Sequence[Draft], width: int) -> list[SetDraft]:
    """The first of the drafts, with lines laid out for rows of `width` cells."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREAD, _set_batch, drafts, width)


def _set_batch(drafts: Sequence[Draft], width: int) -> list[SetDraft]:
    done: list[SetDraft] = []
    length = 0
    for draft in drafts:
        if length < BATCH:
            done.append((draft, _set(draft.source, width)))
            length += len(draft.source)
    return done


def _set(source: str, width: int) -> list[Line]:
    from dspark_tui.text.markdown_lines import as_written, set_in_type  # not before the first paint

    try:
        lines = set_in_type(source)
    except Exception:  # a parser's fault must cost the looks of one answer, not the answer
        log.exception("an answer could not be set in type")
        lines = as_written(source)
    for line in lines:
        line.lay_out(width)
    return lines
