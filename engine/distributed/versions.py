"""What has to be the same on every rank."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("dspark-tui", "mlx", "mlx-lm")


def versions() -> str:
    """The versions of the code."""
    return ", ".join(f"{package} {version(package)}" for package in PACKAGES)


def digest(folder: Path) -> str:
    """A model folder's config.json in a few characters."""
    return hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
