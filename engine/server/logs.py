"""The log file: requests, warnings and tracebacks; prompts only if asked, answers never."""

from __future__ import annotations

import logging
import logging.handlers
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_log_path

from engine.engine import Engine
from engine.types import GenerationRequest

log = logging.getLogger(__name__)

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


def note(requests: Sequence[GenerationRequest], engine: Engine, *, prompts: bool) -> None:
    """Write down who asked and for how much. prompts: and what."""
    for request in requests:
        size, limit = len(request.prompt), request.max_tokens
        source = request.source or "somebody"
        log.info("%s: %r, %d prompt tokens, at most %d", request.id, source, size, limit)
        if prompts and engine.model is not None:
            text = engine.model.tokenizer.decode(request.prompt, special=True)
            log.info("%s: the prompt is %r", request.id, text)
