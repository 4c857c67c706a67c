"""What the latest engine process was asked for and what it did; `dspark-tui doctor` shows it."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from engine.events import Snapshot, decode, encode

log = logging.getLogger(__name__)

NAME = "last-run.json"


def save(state: Snapshot, folder: Path) -> None:
    """Keep the state in `folder`, whole or not at all. Never raises: nothing depends on it."""
    draft = folder / f".{NAME}.{os.getpid()}"
    try:
        draft.write_text(json.dumps(encode(state)), encoding="utf-8")
        draft.replace(folder / NAME)
    except OSError as error:
        log.info("the state of this run is not kept: %s", error)


def load(folder: Path) -> Snapshot | None:
    """The state kept last, None if there is none that can be read."""
    try:
        state = decode(json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return state if isinstance(state, Snapshot) else None
