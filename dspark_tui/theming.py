"""Theme files: TOML to Textual themes, with problems as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class ThemeProblem:
    file: Path
    text: str


def load_themes(user_folder: Path | None = None) -> tuple[list[Theme], list[ThemeProblem]]:
    """The shipped themes and the user's own, which win; and what was wrong with any of them."""
    return [], []


def role_variables(theme: Theme) -> dict[str, str]:
    """Values of every `$role-…` variable for a theme. An app returns them from
    `get_theme_variable_defaults`, so that styles can use roles with any theme."""
    return {}
