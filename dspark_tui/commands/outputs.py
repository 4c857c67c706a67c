"""The files a command is to write, looked at before it starts."""

from __future__ import annotations

from pathlib import Path

from dspark_tui.paths import tilde
from engine.proof.output import refusal


class OutputError(ValueError):
    """A file can't be written. `str()` is one line for the person."""


def check_output(option: str, path: Path) -> None:
    """What took minutes to measure is not to be lost over a file's name. Raises OutputError.

    path: will be replaced by a draft from beside it, so neither may refuse; a device must not be.
    """
    draft = path.with_name(f"{path.name}.tmp")
    special = path.exists() and not path.is_file() and not path.is_dir()
    if why := "it is no file" if special else refusal(path) or refusal(draft):
        raise OutputError(f"{option}: {tilde(path)} can't be written: {why}")
