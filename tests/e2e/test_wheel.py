"""What users install: the wheel, in an empty environment, away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEADLESS = """
import asyncio
from dspark_tui import cli, config
from dspark_tui.paths import Paths

async def main():
    app = cli.build_app(config.Settings(), Paths.of_user(), [], "")
    async with app.run_test(size=(120, 35)) as pilot:
        while (model := app.workbench.link.live.engine.model) is None:
            assert not app.workbench.link.failed
            await asyncio.sleep(0.1)
        print(model.id, model.family)
    await app.close()

asyncio.run(asyncio.wait_for(main(), 600))
"""


def run(*command: str | Path, cwd: Path, timeout: float = 1200) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_themes_styles_and_type_markers_are_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {f"dspark_tui/themes/{theme.name}" for theme in (ROOT / "themes").glob("*.toml")}
    styles = {f"dspark_tui/styles/{s.name}" for s in (ROOT / "dspark_tui/styles").glob("*.tcss")}
    assert shipped
    assert styles
    assert shipped | styles | {"dspark_tui/py.typed", "engine/py.typed"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_it_installs_into_an_empty_environment_and_starts(
    wheel: Path, embedded_model: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)

    version = run(python.with_name("dspark-tui"), "--version", cwd=tmp_path)
    assert version.startswith("dspark-tui ")

    started = run(python, "-c", HEADLESS, cwd=tmp_path)
    assert started.split()[:2] == ["smollm2-135m-instruct", "llama"]
