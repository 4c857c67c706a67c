"""The log file: warnings and tracebacks, never prompts or answers."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from platformdirs import user_log_path

MAX_BYTES = 1_000_000
BACKUPS = 3


def open_log(path: Path | None) -> Path | None:
    """Send all logging to a file; the path, or None where none can be written."""
    path = path or user_log_path("dspark-tui") / "engine.log"
    handler: logging.Handler
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8"
        )
    except OSError:
        logging.basicConfig(handlers=[logging.NullHandler()], force=True)
        return None
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)
    return path
