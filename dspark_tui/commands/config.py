"""`dspark-tui config`: the settings in force, and where each one comes from."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, fields
from typing import Any

from dspark_tui import config
from dspark_tui.params import PaneParams
from dspark_tui.paths import Paths


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "config", help="show the settings in force and where each comes from"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print them as TOML with the sources as comments; 2 if the file has problems."""
    path = Paths.of_user().config
    loaded = config.load(path)
    print(f"# {path}{'' if path.exists() else ' (not there; these are the defaults)'}")
    for field in fields(config.Settings):
        if field.name != "panes":
            source = "config.toml" if field.name in loaded.sources else "default"
            print(f"{field.name} = {_toml(getattr(loaded.settings, field.name))}  # {source}")
    for pane in loaded.settings.panes:
        print("\n[[pane]]")
        for key, value in _told(pane).items():
            print(f"{key} = {_toml(value)}")
    for problem in loaded.problems:
        print(problem, file=sys.stderr)
    return 2 if loaded.problems else 0


def _told(pane: PaneParams) -> dict[str, Any]:
    """What the pane sets; a seed drawn anew each time is not written."""
    return {key: value for key, value in asdict(pane).items() if value is not None}


def _toml(value: Any) -> str:
    import tomli_w

    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")
