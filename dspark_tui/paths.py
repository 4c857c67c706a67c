"""Where the workbench keeps things on this system. Nothing is created until it is first written."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

APP = "dspark-tui"


class Paths(Struct, frozen=True):
    """The user's files. Any of them may be missing, and any folder may be read-only."""

    config: Path
    state: Path
    log: Path
    engine_log: Path
    sessions: Path

    @classmethod
    def of_user(cls) -> Paths:
        import platformdirs

        logs = platformdirs.user_log_path(APP)
        return cls(
            config=platformdirs.user_config_path(APP) / "config.toml",
            state=platformdirs.user_state_path(APP) / "state.toml",
            log=logs / "workbench.log",
            engine_log=logs / "engine.log",
            sessions=platformdirs.user_data_path(APP) / "sessions.db",
        )


def tilde(path: Path) -> str:
    """The path as people write it, with ~ for the home folder."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's whole content, or leave it as it was. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
