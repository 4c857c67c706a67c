"""Which models there are: find one by name, make it ready, list them, remove them.

Nothing here imports MLX until a GGUF file has to be converted.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import platformdirs

from engine.models.errors import ModelError
from engine.models.fetch import SMOLLM2, fetch_embedded
from engine.models.hub import cached_models, fetch_hub, remove_cached
from engine.models.prepare import ProgressSink, discard, is_ready, prepare_once

__all__ = [
    "Installed",
    "Kind",
    "ModelError",
    "ModelRef",
    "data_folder",
    "ensure",
    "installed",
    "removable",
    "remove",
    "resolve",
]

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class Kind(StrEnum):
    """Where a model comes from."""

    EMBEDDED = "embedded"
    FOLDER = "folder"
    GGUF = "gguf"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model someone asked for. path: where it is or will be; None for the hub's models, which
    have their place in the hub's cache."""

    name: str
    kind: Kind
    path: Path | None


@dataclass(frozen=True, slots=True)
class Installed:
    """A model this machine knows of. size: bytes on disk. problem: why it can't be used as it is,
    None if it can."""

    name: str
    kind: Kind
    path: Path
    size: int
    problem: str | None = None


def data_folder() -> Path:
    """Where prepared models are kept: DSPARK_DATA_DIR, or the platform's folder for user data."""
    named = os.environ.get("DSPARK_DATA_DIR")
    return Path(named).expanduser() if named else platformdirs.user_data_path("dspark-tui")


def resolve(name: str | None) -> ModelRef:
    """The model called `name`: a folder, a .gguf file, a prepared model, or a hub id; None is the
    embedded one. Costs no network. Raises ModelError with the nearest names."""
    if name is None or name == SMOLLM2.name:
        return ModelRef(SMOLLM2.name, Kind.EMBEDDED, _embedded())
    path = Path(name).expanduser()
    kind = _kind_at(path) if name else None
    if kind is not None:
        path = path.resolve()
        if kind is Kind.FOLDER and not (path / "config.json").is_file():
            raise ModelError(f"{path} is no model folder: it has no config.json")
        return ModelRef(path.name if kind is Kind.FOLDER else path.stem, kind, path)
    if path.suffix.lower() == ".gguf" or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(f"there is no model at {name}")
    if name and is_ready(_models() / name):
        return ModelRef(name, Kind.FOLDER, _models() / name)
    if _HUB_NAME.fullmatch(name):
        return ModelRef(name, Kind.HUB, None)
    other = (
        "A folder, a .gguf file or a hub id such as mlx-community/SmolLM2-135M-Instruct works too"
    )
    raise ModelError(f"{_unknown(name)} {other}")


def ensure(ref: ModelRef, progress: ProgressSink = lambda _: None) -> Path:
    """A folder that mlx-lm can load, fetched and converted first where needed.

    progress: hears of it, and may raise to end it. Raises ModelError.
    """
    if ref.path is None:
        return fetch_hub(ref.name, progress)
    if ref.kind is Kind.EMBEDDED:
        return fetch_embedded(ref.path, progress)
    return _converted(ref.path, progress) if ref.kind is Kind.GGUF else ref.path


def installed() -> list[Installed]:
    """The embedded model first, then prepared ones, then those in the hub's cache."""
    embedded = _embedded()
    missing = None if is_ready(embedded) else f"not fetched yet ({SMOLLM2.size()})"
    models = [Installed(SMOLLM2.name, Kind.EMBEDDED, embedded, _size(embedded), missing)]
    for folder in sorted(_models().glob("[!.]*/config.json")):
        if folder.parent != embedded:
            path = folder.parent
            models.append(Installed(path.name, Kind.GGUF, path, _size(path)))
    cached = (Installed(m.name, Kind.HUB, m.path, m.size, m.problem) for m in cached_models())
    return [*models, *cached]


def removable(name: str) -> Installed:
    """The prepared or cached model `remove` would delete. Raises ModelError if there is none."""
    model = next((model for model in installed() if model.name == name), None)
    if model is None:
        if os.path.exists(Path(name).expanduser()):
            raise ModelError(f"{name} is your own; delete it yourself if you mean to")
        raise ModelError(f"{_unknown(name)} `dspark-tui models` lists what can be removed")
    if not model.path.is_dir():
        raise ModelError(f"{name} is not on this disk; there is nothing to remove")
    return model


def remove(name: str) -> None:
    """Delete a prepared or cached model. Raises ModelError."""
    model = removable(name)
    if model.kind is Kind.HUB:
        remove_cached(name)
    else:
        discard(model.path)


def _kind_at(path: Path) -> Kind | None:
    """What stands at a path, None for nothing. Raises ModelError for a file of another format."""
    if os.path.isdir(path):  # os.path: a name too long for the file system names nothing
        return Kind.FOLDER
    if not os.path.isfile(path):
        return None
    if path.suffix.lower() != ".gguf":
        raise ModelError(f"{path} is a file, not a model folder or a .gguf file")
    return Kind.GGUF


def _models() -> Path:
    return data_folder() / "models"


def _embedded() -> Path:
    return _models() / SMOLLM2.name


def _converted(source: Path, progress: ProgressSink) -> Path:
    """The folder made from a GGUF file; another file of that name, or a newer one, gets its own."""
    state = source.stat()
    identity = f"{source}:{state.st_size}:{state.st_mtime_ns}"
    folder = _models() / f"{source.stem}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"

    def fill(new: Path) -> None:
        from engine.models import gguf

        gguf.convert(source, new, progress)

    return prepare_once(folder, fill, progress)


def _unknown(name: str) -> str:
    names = [model.name for model in installed()]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or [SMOLLM2.name]
    return f'no model "{name}"; did you mean {" or ".join(near)}?'


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
