"""`dspark-tui config`: every setting: what it means, its default, and where its value is from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import asdict

from dspark_tui import config
from dspark_tui.actions import ACTIONS
from dspark_tui.conversation.params import FIELDS, PaneParams
from dspark_tui.engines.entries import KEYS, EngineEntry
from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.keymap import Keymap, spelled
from dspark_tui.paths import Paths


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "config",
        help="show the settings in force and where each comes from",
        epilog=in_words("config"),
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print them as TOML with the rest as comments; the exit code."""
    path = Paths.of_user().config
    loaded = config.load(path)
    print(f"# {path}{'' if path.exists() else ' (not there; these are the defaults)'}")
    settings = loaded.settings
    for lines in (
        _settings(loaded),
        _engines(settings.engines),
        _panes(loaded),
        _keys(settings.keys),
    ):
        print()
        print("\n".join(lines))
    for problem in loaded.problems:
        print(problem, file=sys.stderr)
    return Exit.UNUSABLE if loaded.problems else Exit.DONE


def _settings(loaded: config.Loaded) -> Iterator[str]:
    for key, setting in config.SETTINGS.items():
        name = config.attribute(key)
        value, default = (_toml(getattr(of, name)) for of in (loaded.settings, config.Settings()))
        yield f"# {setting.meaning}; default {default}"
        yield f"{key} = {value}  # {_source(name in loaded.sources)}"


def _engines(engines: Mapping[str, EngineEntry]) -> Iterator[str]:
    import tomli_w

    yield f"# [engines.NAME]: {config.TABLES['engines']}. In it:"
    for key, setting in KEYS.items():
        yield f"# {key}: {setting.meaning}"
    for name, entry in engines.items():
        table = {k: v for k, v in asdict(entry).items() if v != getattr(EngineEntry(), k)}
        yield f"\n[engines.{name}]"
        yield tomli_w.dumps(table).rstrip("\n").replace("[headers]", f"[engines.{name}.headers]")


def _panes(loaded: config.Loaded) -> Iterator[str]:
    yield f"# [defaults]: {config.TABLES['defaults']}; [[pane]]: {config.TABLES['pane']}. In both:"
    for key, value in asdict(PaneParams()).items():
        default = "to draw one each time" if value is None else _toml(value)
        yield f"# {key}: {FIELDS[key].hint}; default {default}"
    for nth, pane in enumerate(loaded.settings.panes):
        yield "\n[[pane]]"
        for key, value in asdict(pane).items():
            if value is not None:  # a seed drawn anew each time
                yield f"{key} = {_toml(value)}  # {_pane_source(loaded, nth, key)}"


def _pane_source(loaded: config.Loaded, nth: int, key: str) -> str:
    if f"pane.{nth}.{key}" in loaded.sources:
        return "config.toml"
    return "config.toml, [defaults]" if f"defaults.0.{key}" in loaded.sources else "default"


def _keys(keymap: Keymap) -> Iterator[str]:
    yield f"# {config.TABLES['keys']}"
    yield "[keys]"
    for action, usual in zip(keymap.actions, ACTIONS, strict=True):
        if not action.per_key:
            names = [_toml(name) for name in spelled(action)]
            value = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
            yield f"{action.id} = {value}  # {_source(action != usual)}: {action.label.lower()}"


def _source(set_by_file: bool) -> str:
    return "config.toml" if set_by_file else "default"


def _toml(value: Any) -> str:
    import tomli_w

    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")
