"""The form for a pane's parameters. Tab moves, Enter applies, Esc leaves things as they were."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid, Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Label, Static, TextArea

from dspark_tui.conversation.params import FIELDS, PaneParams, ParamError, updated
from dspark_tui.conversation.session import Conversation
from dspark_tui.engines.entries import engine_problem
from dspark_tui.screens.form import Form
from dspark_tui.widgets.fields import LineBox, TextBox


class FormLine(LineBox):
    KEYS: ClassVar = {
        "enter": "apply()",
        "f2": "apply()",
        "escape": "leave()",
        "tab": "app.focus_next()",
        "down": "app.focus_next()",
        "shift+tab": "app.focus_previous()",
        "up": "app.focus_previous()",
    }


class FormText(TextBox):
    """Enter and the arrow keys are its own."""

    KEYS: ClassVar = {
        key: call for key, call in FormLine.KEYS.items() if key not in ("enter", "up", "down")
    }


class ParamsForm(Form[PaneParams | None]):
    """Gives the new parameters, or None when left."""

    BINDINGS: ClassVar = [Binding("ctrl+c", "leave")]
    KEY_HELP: ClassVar = (
        ("Enter F2", "apply all of it to the pane; in the system prompt Enter starts a new line"),
        ("Tab Down", "to the next field"),
        ("Shift+Tab Up", "to the field before"),
        ("Esc ^C", "leave all as it was"),
    )
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-wide")]  # noqa: RUF012

    def __init__(self, pane: Conversation, engines: Collection[str] = ()) -> None:
        """engines: names a pane can be bound to; without any there is nothing to choose."""
        super().__init__()
        self._pane = pane
        self._engines = engines
        chosen = engines or pane.params.engine
        self._fields = [key for key in FIELDS if key != "engine" or chosen]

    def compose(self) -> ComposeResult:
        params = self._pane.params
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = Content(f"pane {self._pane.number}")
            sheet.border_subtitle = "Tab next   F2 or Enter apply   Esc leave as it was"
            yield _line("name", params.name, FIELDS["name"].hint)
            if "engine" in self._fields:
                there = f"one of {', '.join(self._engines)}; empty: the usual"
                yield _line("engine", params.engine, there)
            with Horizontal(classes="field", id="system-field"):
                yield Label(FIELDS["system"].label)
                yield FormText(params.system, id="system", compact=True, tab_behavior="focus")
            with Grid(classes="numbers"):
                for key, field in FIELDS.items():
                    if key in ("name", "system", "engine"):
                        continue
                    with Horizontal(classes="field"):
                        yield Label(field.label)
                        value = field.text(getattr(params, key))
                        yield FormLine(value, id=key, compact=True)
                        yield Label(field.hint, classes="hint")
            yield Static("", id="problem", markup=False)

    def on_mount(self) -> None:
        self.begin_in("#name")

    def on_input_changed(self) -> None:
        self.query_one("#problem", Static).update("")

    def action_apply(self) -> None:
        params = self._pane.params
        for key in self._fields:
            try:
                params = updated(params, {key: self._text(key)})
                if key == "engine" and params.engine != self._pane.params.engine:
                    self._check_engine(params.engine)
            except ParamError as error:
                self.query_one("#problem", Static).update(Content(str(error)))
                self.query_one(f"#{key}").focus()
                return
        self.dismiss(params)

    def _check_engine(self, name: str) -> None:
        if problem := engine_problem(name, self._engines):
            raise ParamError(f"engine {problem}")

    def action_leave(self) -> None:
        self.dismiss(None)

    def _text(self, key: str) -> str:
        widget = self.query_one(f"#{key}")
        return (
            widget.text if isinstance(widget, TextArea) else self.query_one(f"#{key}", Input).value
        )


def _line(key: str, value: str, hint: str) -> Horizontal:
    box = FormLine(value, id=key, compact=True, placeholder=hint)
    return Horizontal(Label(FIELDS[key].label), box, classes="field")
