"""An app with one widget, for tests of that widget alone."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widget import Widget

from dspark_tui.appearance.roles import role_variables
from dspark_tui.appearance.theming import load_themes


class Stage(App[None]):
    """Shows `widget` in a shipped theme."""

    CSS = "Transcript { border: round $role-pane-blur; }"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        for theme in load_themes()[0]:
            self.register_theme(theme)
        self.theme = "ember"


def lines(widget: Widget) -> list[str]:
    """What the widget's content area shows, row by row."""
    return [widget.render_line(y).text for y in range(widget.size.height)]
