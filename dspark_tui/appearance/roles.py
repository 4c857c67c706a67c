"""What colours mean here. Styles name roles (`$role-lane-decode`), themes may set each of them."""

from __future__ import annotations

from textual.color import Color, ColorParseError
from textual.theme import Theme

PALETTE = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "boost",
    "success",
    "warning",
    "error",
)
"""Textual's own colours, which a role may name."""

FAINT = "auto 80%"
"""A style for part of a text that only comes along. Not the role "dim": Textual blends a span's
half-transparent colour with the text's own instead of with what is behind it, unless it is "auto";
and not the variable $text-muted: in a span's style it would lose its share.
"""

ROLES = {
    "lane-queued": "foreground 45%",
    "lane-prefill": "secondary",
    "lane-decode": "success",
    "lane-stall": "warning",
    "lane-done": "success",
    "lane-stopped": "warning",
    "lane-failed": "error",
    "lane-width": "primary",
    "number": "foreground",
    "strong": "primary",
    "dim": "foreground 60%",
    "warning": "warning",
    "error": "error",
    "pane-focus": "primary",
    "pane-blur": "foreground 25%",
    "pane-target": "accent",
    "sign": "foreground 45%",
    "removed": "error",
    "added": "success",
    "below": "primary",
    "below-background": "panel",
}
"""A colour each: a palette name or any CSS colour, then maybe an opacity."""

MARKDOWN = {
    "user": "bold primary",
    "heading": "bold primary",
    "bullet": "accent",
    "code": "accent",
    "fence": "foreground on panel",
    "keyword": "primary",
    "name": "secondary",
    "string": "success",
    "number": "accent",
    "comment": "italic foreground 70%",
}
"""A text style each: words like "bold", a colour, then maybe "on" and a background."""

STYLE_WORDS = frozenset({"bold", "dim", "italic", "underline", "reverse", "strike", "none"})


def role_variables(theme: Theme) -> dict[str, str]:
    """Values of every `$role-…` variable, made from a theme's palette.

    An app returns them from `get_theme_variable_defaults`; what the theme's own variables say about
    a role comes later and wins.
    """
    palette = palette_of(theme)
    variables = {f"role-{role}": colour(spec, palette) for role, spec in ROLES.items()}
    for role, spec in MARKDOWN.items():
        variables |= text_variables(role, spec, palette)
    return variables


def palette_of(theme: Theme) -> dict[str, str]:
    """A theme's colours with everything filled in that it leaves out."""
    generated = theme.to_color_system().generate()
    return {name: generated[name] for name in PALETTE}


def colour(spec: str, palette: dict[str, str]) -> str:
    """The CSS colour a role's words stand for.

    Raises ValueError naming what is no colour.
    """
    name, _, opacity = spec.strip().partition(" ")
    value = palette.get(name, name)
    try:
        Color.parse(value)
        if opacity and not 0 <= float(opacity.strip().removesuffix("%")) <= 100:
            raise ValueError
    except (ColorParseError, ValueError):
        raise ValueError(f"{spec!r} is neither a palette name nor a colour") from None
    return f"{value} {opacity}".strip()


def text_variables(role: str, spec: str, palette: dict[str, str]) -> dict[str, str]:
    """`role-X`, `role-X-style` and `role-X-background` for a Markdown role.

    Raises ValueError naming what is no colour.
    """
    front, _, back = f" {spec} ".partition(" on ")
    words = front.split()
    styles = [word for word in words if word in STYLE_WORDS]
    colours = [word for word in words if word not in STYLE_WORDS]
    return {
        f"role-{role}": colour(" ".join(colours) or "foreground", palette),
        f"role-{role}-style": " ".join(styles) or "none",
        f"role-{role}-background": colour(back, palette) if back.strip() else "transparent",
    }
