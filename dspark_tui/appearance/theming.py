"""Theme files: TOML to Textual themes, with problems as values.

One broken file costs one line on screen, never the running theme.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from dspark_tui.appearance.roles import MARKDOWN, PALETTE, ROLES, colour, palette_of, text_variables

SCHEMA = 1
MIN_CONTRAST = 4.5
READABLE = {"text-disabled": "auto 65%"}
"""Placeholders and the headings of lists have it; by Textual's own share they are too faint."""
TOP_KEYS = ("schema", "name", "dark", "ansi")
TUNING = ("luminosity_spread", "text_alpha")
SECTIONS: dict[str, tuple[str, ...] | None] = {
    "meta": None,  # anything goes
    "palette": PALETTE,
    "tuning": TUNING,
    "role": tuple(role.replace("-", "_") for role in ROLES),
    "markdown": tuple(MARKDOWN),
    "variables": None,
}


class ThemeProblem(Struct, frozen=True):
    """What is wrong with a theme file. fatal: it can't be used at all."""

    file: Path
    text: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.file.name}: {self.text}"


class _Unusable(ValueError):
    """A theme file that can't become a theme; `str()` says why."""


def load_named(name: str, user_folder: Path | None = None) -> Theme | None:
    """One theme alone, the user's own before a shipped one; None if none by that name is usable."""
    for folder in (user_folder, shipped_themes()):
        for file in folder.glob("*.toml") if folder is not None else ():
            theme = load_theme(file)[0] if file.stem == name else None
            if theme is not None:
                return theme
    return None


def load_themes(user_folder: Path | None = None) -> tuple[list[Theme], list[ThemeProblem]]:
    """The shipped themes and the user's own, which win; and what is wrong with any of them."""
    themes: dict[str, Theme] = {}
    problems: list[ThemeProblem] = []
    for folder in (shipped_themes(), user_folder):
        files = sorted(folder.glob("*.toml")) if folder is not None else []
        for file in files:
            theme, found = load_theme(file)
            problems += found
            if theme is not None:
                themes[theme.name] = theme
    return list(themes.values()), problems


def unknown(name: str, user_folder: Path | None = None) -> str:
    """What to say of a name that no theme has; "" of any other."""
    names = [theme.name for theme in load_themes(user_folder)[0]]
    if name in names:
        return ""
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return f"there is no theme {name!r}; {hint}"


def shipped_themes() -> Path:
    """The folder of the themes that come with the program: in the wheel, else in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "themes"
    return installed if installed.is_dir() else package.parent / "themes"


def load_theme(file: Path) -> tuple[Theme | None, list[ThemeProblem]]:
    """Read one theme file; no theme if it can't be used, and then the last problem says why."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        problems = [ThemeProblem(file, text, fatal=False) for text in _unknown_keys(data)]
        theme = _theme(file.stem, data)
    except OSError as error:
        return None, [ThemeProblem(file, f"can't be read: {error.strerror}")]
    except UnicodeDecodeError:
        return None, [ThemeProblem(file, "is not UTF-8 text")]
    except tomllib.TOMLDecodeError as error:
        return None, [ThemeProblem(file, f"is not TOML: {error}")]
    except _Unusable as error:
        return None, [*problems, ThemeProblem(file, str(error))]
    problems += [ThemeProblem(file, text, fatal=False) for text in _hard_to_read(theme)]
    return theme, problems


def _theme(stem: str, data: dict[str, Any]) -> Theme:
    if data.get("schema") != SCHEMA:
        raise _Unusable(f"schema must be {SCHEMA}")
    if data.get("name") != stem:
        raise _Unusable(f"name must be {stem!r}, like the file")
    palette = _section(data, "palette", str)
    if "primary" not in palette:
        raise _Unusable("[palette] needs primary")
    for name, value in palette.items():
        with _about(f"palette.{name}"):
            colour(value, {})
    tuning = _section(data, "tuning", float)
    theme = Theme(
        name=stem,
        dark=_flag(data, "dark", True),
        ansi=_flag(data, "ansi", False),
        luminosity_spread=float(tuning.get("luminosity_spread", 0.15)),
        text_alpha=float(tuning.get("text_alpha", 0.95)),
        **{name: value for name, value in palette.items() if name in PALETTE},
    )
    theme.variables = READABLE | _ansi_variables(theme) | _variables(data, theme)
    return theme


def _ansi_variables(theme: Theme) -> dict[str, str]:
    """What Textual's own styles expect of a theme in the terminal's colours."""
    if not theme.ansi:
        return {}
    return BUILTIN_THEMES["ansi-dark" if theme.dark else "ansi-light"].variables


def _variables(data: dict[str, Any], theme: Theme) -> dict[str, str]:
    defaults = theme.to_color_system().generate()
    palette = {name: defaults[name] for name in PALETTE}
    variables = dict(_section(data, "variables", str))
    for key, value in variables.items():
        if value.startswith("#") or defaults.get(key, "").startswith("#"):
            with _about(f"variables.{key}"):
                colour(value, palette)
    for key, spec in _section(data, "role", str).items():
        role = key.replace("_", "-")
        if role in ROLES:
            with _about(f"role.{key}"):
                variables[f"role-{role}"] = colour(spec, palette)
    for key, spec in _section(data, "markdown", str).items():
        if key in MARKDOWN:
            with _about(f"markdown.{key}"):
                variables |= text_variables(key, spec, palette)
    return variables


@contextmanager
def _about(key: str) -> Iterator[None]:
    """Makes a ValueError say which key it is about."""
    try:
        yield
    except ValueError as error:
        raise _Unusable(f"{key}: {error}") from None


def _flag(data: dict[str, Any], key: str, default: bool) -> bool:
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise _Unusable(f"{key} must be true or false")
    return value


def _section(data: dict[str, Any], name: str, kind: type) -> dict[str, Any]:
    section = data.get(name, {})
    accepted = (int, float) if kind is float else kind
    if not isinstance(section, dict):
        raise _Unusable(f"[{name}] must be a table")
    for key, value in section.items():
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise _Unusable(f"{name}.{key} must be a {'number' if kind is float else 'string'}")
    return section


def _unknown_keys(data: dict[str, Any]) -> Iterator[str]:
    known = {*TOP_KEYS, *SECTIONS}
    found = set(data)
    for section, keys in SECTIONS.items():
        content = data.get(section)
        if keys is not None and isinstance(content, dict):
            known |= {f"{section}.{key}" for key in keys}
            found |= {f"{section}.{key}" for key in content}
    for key in sorted(found - known):
        nearest = get_close_matches(key, known, n=1)
        hint = f", did you mean {nearest[0]}?" if nearest else ""
        yield f"unknown key {key}{hint}"


def _hard_to_read(theme: Theme) -> Iterator[str]:
    """Backgrounds on which the theme's text misses the contrast that small text needs."""
    palette = palette_of(theme)
    for ground in () if theme.ansi else ("background", "surface", "panel"):
        ratio = contrast(palette["foreground"], palette[ground])
        if ratio < MIN_CONTRAST:
            yield f"foreground on {ground} has contrast {ratio:.1f}, below {MIN_CONTRAST}"


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two opaque colours as WCAG defines it, 1 to 21."""
    dark, light = sorted(_luminance(Color.parse(value)) for value in (first, second))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
