"""The settings: one record, read from config.toml. The file is the user's; we never write it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dspark_tui.actions import ACTIONS
from dspark_tui.conversation.params import FIELDS, PaneParams, ParamError, updated
from dspark_tui.conversation.pastes import COLLAPSE_OVER
from dspark_tui.conversation.session import MAX_PANES
from dspark_tui.engines.entries import KEYS, NAME, EngineEntry, engine_problem, read_entry
from dspark_tui.engines.worker_settings import WorkerSettings
from dspark_tui.keymap import Keymap, read_keymap
from dspark_tui.setting import (
    PRECISIONS,
    Setting,
    batch,
    boolean,
    draft,
    drafter_bits,
    length,
    one_of,
    server,
    share,
    text,
)
from dspark_tui.toml_source import TOP, FileError, MissingFileError, Place, Problem, TomlSource
from engine.speculate import Speculate

ACTION_IDS = frozenset(action.id for action in ACTIONS)

PANELS = ("auto", "off", "small", "medium", "large", "full")


class Settings(WorkerSettings, frozen=True):
    """What a person can set, with the usual engine's own. "" means the default: a worker of our
    own, the theme chosen last, …"""

    attach: str = ""
    theme: str = ""
    ascii: bool = False
    panel: str = "auto"
    vim: bool = True
    paste_collapse_over: int = COLLAPSE_OVER
    panes: tuple[PaneParams, ...] = (PaneParams(), PaneParams())
    keys: Keymap = field(default_factory=Keymap)
    engines: dict[str, EngineEntry] = field(default_factory=dict)
    api_key: str | None = None  # of the server in `attach`; never from the file


class Loaded(Struct):
    """The settings as read, what was wrong, and where each one that isn't a default came from.

    sources: by attribute of Settings; by "pane.NTH.KEY" and "defaults.0.KEY" for the panes'.
    """

    settings: Settings = field(default_factory=Settings)
    problems: list[Problem] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: Any, source: str) -> None:
        self.settings = replace(self.settings, **{key: value})
        self.sources[key] = source


def load(path: Path) -> Loaded:
    """Read the file; never raises. What can't be used is a problem and keeps its default."""
    try:
        source = TomlSource.read(path)
    except MissingFileError:
        return Loaded()
    except FileError as error:
        return Loaded(problems=[error.problem])
    return _Reader(source).read()


class _Reader:
    """Takes one parsed document into settings, collecting problems."""

    def __init__(self, source: TomlSource) -> None:
        self.source, self.path = source, source.path
        self.loaded = Loaded()

    def read(self) -> Loaded:
        document = dict(self.source.document)
        if "engines" in document:
            self._engines(document.pop("engines"))
        defaults = self._params(PaneParams(), document.pop("defaults", {}), "defaults")
        panes = document.pop("pane", None)
        if panes is not None or defaults != PaneParams():
            self.loaded.set("panes", self._panes(defaults, panes), str(self.path))
        keys = document.pop("keys", {})
        for key, value in _dotted(document):
            self._setting(key, value)
        if keys or not self.loaded.settings.vim:
            self._keys(keys)
        self.loaded.problems.sort(key=lambda problem: problem.line)
        return self.loaded

    def _setting(self, key: str, value: Any) -> None:
        setting = SETTINGS.get(key)
        table, _, name = key.rpartition(".")
        if setting is None and isinstance(value, dict):
            inside = next((f"{inner}: {home}" for inner in value if (home := _home(inner))), "")
            self._problem(name, "is not a table of settings", _nearest(key, TABLES) or inside)
        elif setting is None:
            hint = _home(name) or _nearest(key, [*SETTINGS, *TABLES])
            self._problem(name, "is not a setting", hint, Place(table))
        elif wanted := setting.check(value):
            self._problem(name, f"takes {wanted}, not {value!r}", place=Place(table))
        else:
            self.loaded.set(attribute(key), value, str(self.path))

    def _engines(self, tables: Any) -> None:
        if not isinstance(tables, dict):
            self._problem("engines", "is written as [engines.NAME] tables")
            return
        engines = {}
        for name, table in tables.items():
            entry, problems = read_entry(name, table)
            for problem in problems:
                opening = f"engines.{name}" if NAME.fullmatch(name) else f'engines."{name}"'
                place = Place(opening) if problem.key else TOP
                hint = problem.hint if problem.key in KEYS else _home(problem.key) or problem.hint
                self._problem(problem.key or opening, problem.text, hint, place)
            if entry is not None:
                engines[name] = entry
        self.loaded.set("engines", engines, str(self.path))

    def _keys(self, table: Any) -> None:
        if not isinstance(table, dict):
            self._problem("keys", "is a table of keys by action")
            return
        keymap, problems = read_keymap(table, self.loaded.settings.vim)
        self.loaded.set("keys", keymap, str(self.path))
        for problem in problems:
            hint = problem.hint if problem.id in ACTION_IDS else _home(problem.id) or problem.hint
            self._problem(problem.id, problem.text, hint, Place("keys"))

    def _panes(self, defaults: PaneParams, tables: Any) -> tuple[PaneParams, ...]:
        if tables is None:
            return (defaults, defaults)
        if not isinstance(tables, list) or not tables:
            self._problem("pane", "is written as [[pane]] tables")
            return (defaults, defaults)
        if len(tables) > MAX_PANES:
            self._problem("pane", f"appears {len(tables)} times; the first {MAX_PANES} open")
        return tuple(
            self._params(defaults, table, "pane", nth)
            for nth, table in enumerate(tables[:MAX_PANES])
        )

    def _params(self, base: PaneParams, table: Any, section: str, nth: int = 0) -> PaneParams:
        """`base` with the table's values. nth: which of the tables of that name it is."""
        if not isinstance(table, dict):
            self._problem(section, "is a table of pane parameters")
            return base
        for key, value in table.items():
            try:
                engines = self.loaded.settings.engines
                if key == "engine" and (problem := engine_problem(value, engines)):
                    raise ParamError(f"engine {problem}")
                base = updated(base, {key: value})
                self.loaded.sources[f"{section}.{nth}.{key}"] = str(self.path)
            except ParamError as error:
                hint, text = "", str(error)[len(key) + 1 :]
                if key not in FIELDS:
                    hint, text = _home(key) or _nearest(key, FIELDS), "is not a pane parameter"
                self._problem(key, text, hint, Place(section, nth))
        return base

    def _problem(self, key: str, text: str, hint: str = "", place: Place = TOP) -> None:
        self.loaded.problems.append(self.source.problem(key, text, place, hint))


def _home(key: str) -> str:
    """Where a key belongs that stands elsewhere, in words; "" if it is nothing anywhere."""
    table = next((k.removesuffix(f".{key}") for k in SETTINGS if k.endswith(f".{key}")), "")
    places = {
        "at the file's top, above the first table": key in SETTINGS,
        f"under [{table}]": table,
        "under [defaults] or [[pane]]": key in FIELDS,
        "under [engines.NAME]": key in KEYS,
        "under [keys]": key in ACTION_IDS,
    }
    return next((f"it belongs {place}" for place, fits in places.items() if fits), "")


def _nearest(key: str, known: Iterable[str]) -> str:
    near = get_close_matches(key, known, 1)
    return f"did you mean {near[0]}?" if near else ""


def attribute(key: str) -> str:
    """The name in Settings of a setting that the file may put into a table."""
    return key.replace(".", "_")


def _dotted(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The settings by their full names."""
    for key, value in document.items():
        if isinstance(value, dict) and any(name.startswith(f"{key}.") for name in SETTINGS):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


SETTINGS: dict[str, Setting] = {
    "model": Setting(text, 'folder, .gguf file, hub id or known name; "" is the embedded one'),
    "max_batch": Setting(batch, "slots of the batch: how many answers are made at once"),
    "precision": Setting(one_of(*PRECISIONS), f"of the weights: {', '.join(PRECISIONS)}"),
    "speculate": Setting(one_of(*Speculate), f"guess tokens ahead: {', '.join(Speculate)}"),
    "drafter": Setting(text, 'the model that guesses: folder or hub id; "" is the one known'),
    "drafter_bits": Setting(drafter_bits, "quantize that model as it is loaded; 0 leaves it alone"),
    "confidence": Setting(
        share, "end a guess before the first token which that model finds less likely to be right"
    ),
    "max_draft": Setting(draft, "tokens guessed at once; 0 is as many as pay"),
    "attach": Setting(server, 'URL of a running server; "" starts a worker of our own'),
    "theme": Setting(text, 'of the colours; "" is the one chosen last, at first ember'),
    "ascii": Setting(boolean, "draw with the signs of a typewriter only"),
    "panel": Setting(one_of(*PANELS), f"size of the batch panel: {', '.join(PANELS)}"),
    "vim": Setting(boolean, "h j k l g G / n N and the like act in the panes"),
    "paste.collapse_over": Setting(
        length, "a longer paste stands in the text as a label, 40 lines too; 0 shows all"
    ),
}
TABLES = {
    "defaults": "what panes start with",
    "pane": "a pane each",
    "engines": "an engine each that panes can name, a worker of our own or a server",
    "keys": "an action's keys, one or a list; letters act in the panes only",
    "paste": "what a paste looks like in the text",
}
