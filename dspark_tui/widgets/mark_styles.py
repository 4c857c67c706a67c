"""What marks look like in a theme: one small table, read straight from the theme's roles.

Component classes would do the same, but Textual matches each of them anew for every pane.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from rich.style import Style
from textual.color import Color

from dspark_tui.text.lightmark import Mark

ROLES = {
    Mark.SIGN: "sign",
    Mark.HEADING: "heading",
    Mark.BULLET: "bullet",
    Mark.URL: "dim",
    Mark.CODE: "code",
    Mark.FENCE: "fence",
    Mark.LANGUAGE: "dim",
    Mark.KEYWORD: "keyword",
    Mark.NAME: "name",
    Mark.STRING: "string",
    Mark.NUMBER: "number",
    Mark.COMMENT: "comment",
    Mark.USER: "user",
    Mark.THOUGHT: "dim",
    Mark.NOTE: "dim",
    Mark.FOOTER: "dim",
    Mark.MARKED: "warning",
}
WORDS = {
    Mark.TITLE: Style(underline=True),
    Mark.BOLD: Style(bold=True),
    Mark.EMPHASIS: Style(italic=True),
    Mark.STRIKE: Style(strike=True),
    Mark.LINK: Style(underline=True),
}


class MarkStyles(Struct, frozen=True):
    """variables: the theme's. base, ground: the widget's own style and the colour behind it."""

    variables: Mapping[str, str]
    base: Style
    ground: Color

    def style(self, mark: Mark, within: tuple[Mark, ...] = ()) -> Style:
        style = self.base
        for each in (*within, mark):
            style += WORDS[each] if each in WORDS else self.role(ROLES.get(each, ""))
        return style

    def role(self, name: str) -> Style:
        """What a role adds to the text around it; nothing if there is no such role."""
        colour = self.variables.get(f"role-{name}")
        if colour is None:
            return Style.null()
        words = self.variables.get(f"role-{name}-style", "none")
        back = self._colour(self.variables.get(f"role-{name}-background", "transparent"))
        return Style.parse(words) + Style(
            color=(self.ground + self._colour(colour)).rich_color,
            bgcolor=(self.ground + back).rich_color if back.a else None,
        )

    def _colour(self, spec: str) -> Color:
        name, _, opacity = spec.partition(" ")
        colour = Color.parse(name)
        return colour.multiply_alpha(float(opacity.rstrip("%")) / 100) if opacity else colour
