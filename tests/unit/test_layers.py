"""The arrows between packages, read from the imports themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL_LIBRARIES = ("mlx", "mlx_lm", "transformers")
UI_MAY_IMPORT = (
    *("engine.types", "engine.events", "engine.state", "engine.speculate", "engine.exit_codes"),
    *("engine.proof.recording", "engine.proof.shape", "engine.proof.verdict"),
)
"""Values, and what is computed from them alone."""
UI_COMMANDS = ROOT / "dspark_tui" / "commands"
SCREENLESS = (
    *("batch", "comparison", "conversation", "engines", "experiments", "storage", "text"),
    *("actions", "config", "keymap", "oneshot", "paths", "state"),
)
"""Packages and modules that know no screen: what they say can be shown by anything."""


def imports(file: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module in ("engine", "dspark_tui"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def files(package: str) -> list[Path]:
    place = ROOT / package
    return sorted(place.rglob("*.py")) or [place.with_suffix(".py")]


@pytest.mark.parametrize("file", files("engine"), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_engine_knows_no_screen(file: Path) -> None:
    assert not [m for m in imports(file) if within(m, ("dspark_tui", "textual", "rich"))]


@pytest.mark.parametrize(
    "file",
    [file for file in files("dspark_tui") if UI_COMMANDS not in file.parents],
    ids=lambda f: str(f.relative_to(ROOT)),
)
def test_the_workbench_reaches_the_engine_by_its_protocol_only(file: Path) -> None:
    found = [m for m in imports(file) if within(m, ("engine",)) and m != "engine"]
    assert not [m for m in found if not within(m, UI_MAY_IMPORT)]
    assert not [m for m in imports(file) if within(m, MODEL_LIBRARIES)]


@pytest.mark.parametrize(
    "file",
    [file for name in SCREENLESS for file in files(f"dspark_tui/{name}")],
    ids=lambda f: str(f.relative_to(ROOT)),
)
def test_what_is_no_screen_needs_no_textual(file: Path) -> None:
    assert not [m for m in imports(file) if within(m, ("textual", "rich.console"))]


@pytest.mark.parametrize("package", ["engine", "dspark_tui"])
def test_imports_never_go_round_in_a_circle(package: str) -> None:
    """Not even those for types alone: who needs whom has one direction."""
    modules = {module_of(file): set(imports(file)) for file in files(package)}
    TopologicalSorter(modules).prepare()  # raises with the circle's modules


def test_the_running_workbench_has_loaded_no_model_library() -> None:
    code = (
        "import sys, dspark_tui.app, dspark_tui.engines.client, dspark_tui.screens.params\n"
        f"print([m for m in {MODEL_LIBRARIES!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_frame_needs_nothing_of_the_engine() -> None:
    """What only a running batch needs is imported after it: events, lanes, links, figures."""
    later = ("engine.events", "engine.types", "dspark_tui.batch.live", "dspark_tui.engines.link")
    code = f"import sys, dspark_tui.app\nprint([m for m in {later!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("file", files("dspark_tui"), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_workbench_has_structs_where_others_have_dataclasses(file: Path) -> None:
    """The first frame would wait 40 times as long for each."""
    assert "@dataclass" not in file.read_text(encoding="utf-8")


def test_no_style_selects_everything() -> None:
    """A universal selector makes every change of a class restyle every widget."""
    for file in (ROOT / "dspark_tui").rglob("*.tcss"):
        for line in file.read_text().splitlines():
            if line.rstrip().endswith(("{", ",")):
                assert "*" not in line, f"{file.name}: {line}"


def test_the_first_frame_waits_for_no_http_library() -> None:
    code = "import sys, dspark_tui.app; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
