"""What `dspark-tui doctor` looks at. Every check is a value; printing them is the command's."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dspark_tui import config
from dspark_tui.batch.widths import WidthHistory
from dspark_tui.paths import Paths, tilde

if TYPE_CHECKING:
    from engine.events import Capability, Snapshot
    from engine.hardware.selfcheck import Device

GIGABYTE = 1e9
LITTLE_MEMORY = 1.5 * GIGABYTE
LITTLE_DISK = 0.5 * GIGABYTE
SLOW_GFLOPS = 10.0
"""Below this no BLAS is an optimised one, whatever its name."""

ROOMY = (80, 24)
SMALLEST = (60, 20)
"""Columns and rows below which only one pane and the composer fit."""


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Check(Struct, frozen=True):
    """topic: one word. fix: what to do, "" where nothing is amiss."""

    topic: str
    level: Level
    text: str
    fix: str = ""


def checks(paths: Paths, environ: Mapping[str, str]) -> Iterator[Check]:
    """All of them, the quick ones first. environ: of the process."""
    loaded = config.load(paths.config)
    yield python()
    yield from terminal(environ, terminal_size())
    yield from settings(loaded, paths)
    yield from folders(paths)
    yield memory()
    yield from models(loaded.settings)
    yield from mlx()
    yield from last_run(paths.engine_log.parent)


def python() -> Check:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    translated = sys.platform == "darwin" and platform.machine() == "x86_64"
    if translated and "arm" in platform.processor():
        fix = "install a Python built for arm64 and run the setup again with it"
        return Check("python", Level.ERROR, f"{text}, translated by Rosetta: no Metal", fix)
    return Check("python", Level.OK, f"{text}, {tilde(Path(sys.executable))}")


def terminal_size() -> tuple[int, int] | None:
    """Columns and rows of the terminal this runs in, wherever its output goes; None without one."""
    for stream in (0, 1, 2):
        try:
            return tuple(os.get_terminal_size(stream))  # type: ignore[return-value]
        except OSError:
            continue
    return None


def terminal(environ: Mapping[str, str], size: tuple[int, int] | None) -> Iterator[Check]:
    if size is None:
        fix = "start the workbench in one; `dspark-tui serve` runs without"
        yield Check("terminal", Level.WARNING, "none here", fix)
        return
    kind = environ.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        fix = "set TERM to your terminal's name, such as xterm-256color"
        yield Check("terminal", Level.WARNING, f"TERM is {kind!r}: colours and keys fail", fix)
    columns, rows = size
    words = f"{columns}x{rows}, {kind or 'unnamed'}, {_colours(environ)}"
    if environ.get("TMUX"):
        words += ", in tmux (copying needs `set -g set-clipboard on`)"
    if columns < SMALLEST[0] or rows < SMALLEST[1]:
        fix = f"enlarge it to {ROOMY[0]}x{ROOMY[1]} or more to see the batch panel"
        yield Check("terminal", Level.WARNING, f"{words}: room for one pane only", fix)
    else:
        yield Check("terminal", Level.OK, words)
    encoding = sys.getfilesystemencoding()
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if locale and "utf" not in locale.lower():
        fix = "set LANG to a UTF-8 locale such as C.UTF-8, or start with --ascii"
        yield Check("encoding", Level.WARNING, f"the locale {locale} is not UTF-8", fix)
    else:
        yield Check("encoding", Level.OK, locale or encoding)


def _colours(environ: Mapping[str, str]) -> str:
    if environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "true colour"
    return "256 colours" if "256" in environ.get("TERM", "") else "16 colours"


def settings(loaded: config.Loaded, paths: Paths) -> Iterator[Check]:
    for problem in loaded.problems:
        fix = problem.hint or "correct that line; until then the default holds"
        place = f"{tilde(problem.file)}:{problem.line}" if problem.line else tilde(problem.file)
        text = " ".join(filter(None, (f"{place}:", problem.key, problem.text)))
        yield Check("config", Level.WARNING, text, fix)
    if not loaded.problems:
        absent = "" if paths.config.exists() else " (not there, which is fine)"
        yield Check("config", Level.OK, f"{tilde(paths.config)}{absent}")
    yield from _themes(loaded.settings.theme, paths.config.parent / "themes")


def _themes(wanted: str, folder: Path) -> Iterator[Check]:
    from dspark_tui.appearance.theming import load_themes, unknown

    themes, problems = load_themes(folder)
    if wanted and (complaint := unknown(wanted, folder)):
        yield Check("themes", Level.WARNING, complaint, "name another, or none, in the settings")
    for problem in problems:
        yield Check("themes", Level.WARNING, str(problem), f"correct {tilde(problem.file)}")
    yield Check("themes", Level.OK, ", ".join(theme.name for theme in themes))


def folders(paths: Paths) -> Iterator[Check]:
    """Each place something is kept: can it be written, and what happens if not."""
    import platformdirs

    from engine.models.catalog import data_folder

    cache = platformdirs.user_cache_path("dspark-tui")
    models_fix = "make it writable or set DSPARK_DATA_DIR to another folder"
    yield _folder("state", paths.state.parent, Level.WARNING, "make it writable to be remembered")
    yield _folder("sessions", paths.sessions.parent, Level.WARNING, "make it writable to keep them")
    yield _folder("logs", paths.log.parent, Level.WARNING, "make it writable to have logs")
    yield _folder("cache", cache, Level.WARNING, "make it writable for a faster start")
    yield _folder("data", data_folder(), Level.ERROR, models_fix)
    socket = "set TMPDIR to a folder you may write to: the engine's socket goes there"
    yield _folder("sockets", Path(tempfile.gettempdir()), Level.ERROR, socket)


def _folder(topic: str, folder: Path, level: Level, fix: str) -> Check:
    existing = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
    except OSError as error:
        text = f"{tilde(folder)} can't be written: {error.strerror or error}"
        return Check(topic, level, text, fix)
    words = f"{tilde(folder)}, {free / GIGABYTE:.1f} GB free"
    if free < LITTLE_DISK:
        return Check(topic, Level.WARNING, words, "free some space on that disk")
    return Check(topic, Level.OK, words)


def memory() -> Check:
    from engine.hardware import memory

    available = memory.available()
    words = f"{available / GIGABYTE:.1f} GB available"
    if available < LITTLE_MEMORY:
        fix = "close other programs, or choose a smaller or more quantized model"
        return Check("memory", Level.WARNING, f"{words}: little for a model", fix)
    return Check("memory", Level.OK, words)


def models(wanted: config.Settings) -> Iterator[Check]:
    from engine.models import catalog

    installed = catalog.installed()
    usable = [model.name for model in installed if model.problem is None]
    for model in installed:
        if model.problem is not None and model.kind is catalog.Kind.EMBEDDED:
            text = f"{model.name}: {model.problem}; the first start fetches it"
            yield Check("models", Level.OK, text)
        elif model.problem is not None:
            fix = f"dspark-tui models fetch {model.name}, or remove it"
            yield Check("models", Level.WARNING, f"{model.name}: {model.problem}", fix)
    if usable:
        yield Check("models", Level.OK, ", ".join(usable))
    try:
        catalog.resolve(wanted.model or None)
    except catalog.ModelError as error:
        yield Check("models", Level.ERROR, f"model in config: {error}", "correct that setting")


def mlx() -> Iterator[Check]:
    from engine.hardware.selfcheck import DeviceError, examine

    try:
        device = examine()
    except DeviceError as error:
        yield Check("mlx", Level.ERROR, str(error), "run `make setup` or reinstall dspark-tui")
        return
    yield Check("mlx", Level.OK, f"{device.mlx}, mlx-lm {device.mlx_lm}, on {device.name}")
    yield blas(device)


def blas(device: Device) -> Check:
    speed = "" if device.gflops is None else f", {device.gflops:.0f} GFLOP/s"
    text = f"{device.blas}{speed}"
    slow = device.gflops is not None and device.gflops < SLOW_GFLOPS
    if device.optimised and not slow:
        return Check("blas", Level.OK, text)
    if device.optimised:
        fix = "is the machine busy? Try again; else unset DSPARK_BLAS"
        return Check("blas", Level.WARNING, f"{text}: too slow to gain by batching", fix)
    return Check("blas", Level.WARNING, f"{text} ({device.why})", "unset DSPARK_BLAS or see why")


def last_run(folder: Path) -> Iterator[Check]:
    """What each option really did in the engine's latest run; those that did as asked together."""
    from engine.server import last_run

    state = last_run.load(folder)
    if state is None:
        yield Check("last run", Level.OK, "none yet; here you will see what each option really did")
        return
    when = datetime.fromtimestamp(state.wall).strftime("%Y-%m-%d %H:%M:%S")
    yield Check("last run", Level.OK, f"{when}, {state.model.id if state.model else 'no model'}")
    yield _slots(state)
    as_asked = []
    for capability in state.capabilities:
        if capability.refused or capability.effective != capability.requested:
            yield _capability(capability)
        else:
            as_asked.append(f"{capability.feature} {capability.effective}")
    if as_asked:
        yield Check("last run", Level.OK, f"as asked: {', '.join(as_asked)}")


def _slots(state: Snapshot) -> Check:
    decoded = sum(request.first_token is not None for request in state.requests)
    peak = WidthHistory.of(state.requests).peak(0.0)
    evidence = f"up to {peak} rows shared a step in its latest {decoded} requests"
    used = evidence if decoded else "no request decoded"
    return Check("last run", Level.OK, f"max-batch: {state.slots} slots; {used}")


def _capability(capability: Capability) -> Check:
    text = (
        f"{capability.feature}: asked for {capability.requested}, got {capability.effective} "
        f"({capability.why})"
    )
    if capability.refused:
        return Check("last run", Level.WARNING, text, "drop the option or remove what it names")
    return Check("last run", Level.OK, text)
