"""The [engines.NAME] tables of config.toml: more workers of our own, and servers elsewhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field

from dspark_tui.engines.worker_settings import WorkerSettings
from dspark_tui.setting import (
    PRECISIONS,
    Setting,
    address,
    batch,
    draft,
    drafter_bits,
    one_of,
    share,
    text,
)
from engine.speculate import Speculate


class EngineEntry(WorkerSettings, frozen=True):
    """A worker of our own for `model`; with `url`, a server elsewhere.

    api_key_env: the environment variable that holds the server's key. model: of a server, the one
    to name in requests, "" for the first it lists.
    """

    url: str = ""
    api_key_env: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class EntryProblem(Struct, frozen=True):
    """Why a key is not used, or, with key "", the whole entry."""

    key: str
    text: str
    hint: str = ""


NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
OF_WORKERS = {*WorkerSettings.__struct_fields__} - {"model"}
OF_SERVERS = ("api_key_env", "headers")


def _headers(value: Any) -> str:
    lines = list(value.items()) if isinstance(value, dict) else [(None, None)]
    fits = all(isinstance(text, str) and text.isprintable() for line in lines for text in line)
    return "" if fits else 'a table of texts, such as { X-Team = "ours" }'


KEYS: Mapping[str, Setting] = {
    "model": Setting(text, "as for the usual engine; of a server, the name it knows"),
    "max_batch": Setting(batch, "of a worker: slots of its batch"),
    "precision": Setting(one_of(*PRECISIONS), "of a worker's weights"),
    "speculate": Setting(one_of(*Speculate), "of a worker: as for the usual engine"),
    "drafter": Setting(text, "of a worker: as for the usual engine"),
    "drafter_bits": Setting(drafter_bits, "of a worker: as for the usual engine"),
    "confidence": Setting(share, "of a worker: as for the usual engine"),
    "max_draft": Setting(draft, "of a worker: as for the usual engine"),
    "url": Setting(address, "of a server; without it the engine is a worker of our own"),
    "api_key_env": Setting(text, "environment variable with the server's key"),
    "headers": Setting(_headers, "sent to the server with each request"),
}


def read_entry(name: str, table: Any) -> tuple[EngineEntry | None, list[EntryProblem]]:
    """The entry with every key that can be used, None if there can't be one, and what is wrong."""
    if not NAME.fullmatch(name):
        return None, [EntryProblem("", "is no name: letters, digits, - and _ make one")]
    if not isinstance(table, dict):
        return None, [EntryProblem("", f"is written as a table, [engines.{name}]")]
    problems = [found for key, value in table.items() if (found := _problem(key, value, table))]
    wrong = {problem.key for problem in problems}
    if "url" in wrong:
        return None, problems
    return EngineEntry(**{key: table[key] for key in table if key not in wrong}), problems


def engine_problem(name: Any, engines: Collection[str]) -> str:
    """What is wrong with a pane's engine being called that, "" if nothing."""
    if name == "" or name in engines:
        return ""
    near = get_close_matches(str(name), engines, 1)
    there = ", ".join(engines) or "none"
    hint = f"did you mean {near[0]}?" if near else f"[engines] has {there}"
    return f"{name!r} is not there ({hint})"


def _problem(key: str, value: Any, table: Mapping[str, Any]) -> EntryProblem | None:
    if key not in KEYS:
        near = get_close_matches(key, KEYS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(KEYS)}"
        return EntryProblem(key, "is no setting of an engine", hint)
    if wanted := KEYS[key].check(value):
        return EntryProblem(key, f"takes {wanted}, not {value!r}")
    if key in OF_WORKERS and "url" in table:
        return EntryProblem(key, "is the server's own business where there is a url")
    if key in OF_SERVERS and "url" not in table:
        return EntryProblem(key, "is for servers: there is no url")
    return None
