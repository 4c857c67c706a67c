"""Files an experiment may be made from, as a path is typed."""

from __future__ import annotations

import os
from os.path import commonprefix
from pathlib import Path

from dspark_tui.experiments.input_table import SUFFIXES as TABLES

EXPERIMENT = ".toml"
SHOWN = 200
"""Entries of one folder that are offered at most."""


def is_table(path: Path) -> bool:
    return path.suffix.lower() in TABLES


def is_experiment(path: Path) -> bool:
    return path.suffix.lower() == EXPERIMENT


def candidates(typed: str) -> list[str]:
    """Folders and fitting files the typed path may become, written the way it was begun.

    Files come first. A folder that can't be read has none.
    """
    folder, slash, start = typed.rpartition("/")
    place = Path(f"{folder}{slash}" or ".").expanduser()
    files, folders = [], []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if not entry.name.startswith(start) or entry.name.startswith(".") > bool(start):
                    continue
                if entry.is_dir():
                    folders.append(f"{folder}{slash}{entry.name}/")
                elif is_table(Path(entry.name)) or is_experiment(Path(entry.name)):
                    files.append(f"{folder}{slash}{entry.name}")
    except OSError:
        return []
    return [*sorted(files), *sorted(folders)][:SHOWN]


def completed(typed: str) -> str:
    """The typed path, longer by all that its candidates share."""
    return commonprefix(candidates(typed)) or typed  # noqa: RUF071  (letters are meant)
