"""The form for a pane's parameters. Tab moves, Enter applies, Esc leaves things as they were."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid, Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static, TextArea

from dspark_tui.params import FIELDS, PaneParams, ParamError, updated
from dspark_tui.session import Conversation


class ParamsForm(ModalScreen[PaneParams | None]):
    """Gives the new parameters, or None when left."""

    BINDINGS: ClassVar = [
        Binding("escape,ctrl+c", "leave"),
        Binding("enter,f2", "apply"),
        Binding("down", "app.focus_next"),
        Binding("up", "app.focus_previous"),
    ]

    def __init__(self, pane: Conversation) -> None:
        super().__init__()
        self._pane = pane

    def compose(self) -> ComposeResult:
        params = self._pane.params
        with Vertical(classes="sheet") as sheet:
            sheet.border_title = Content(f"pane {self._pane.number}")
            sheet.border_subtitle = "Tab next   Enter apply   Esc leave as it was"
            with Horizontal(classes="field"):
                yield Label(FIELDS["name"].label)
                yield Input(params.name, id="name", compact=True, placeholder=FIELDS["name"].hint)
            with Horizontal(classes="field", id="system-field"):
                yield Label(FIELDS["system"].label)
                yield TextArea(params.system, id="system", compact=True, tab_behavior="focus")
            with Grid(classes="numbers"):
                for key, field in FIELDS.items():
                    if key in ("name", "system"):
                        continue
                    with Horizontal(classes="field"):
                        yield Label(field.label)
                        value = field.text(getattr(params, key))
                        yield Input(value, id=key, compact=True)
                        yield Label(field.hint, classes="hint")
            yield Static("", id="problem", markup=False)

    def on_input_submitted(self) -> None:
        self.action_apply()

    def on_input_changed(self) -> None:
        self.query_one("#problem", Static).update("")

    def action_apply(self) -> None:
        params = self._pane.params
        for key in FIELDS:
            try:
                params = updated(params, {key: self._text(key)})
            except ParamError as error:
                self.query_one("#problem", Static).update(Content(str(error)))
                self.query_one(f"#{key}").focus()
                return
        self.dismiss(params)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _text(self, key: str) -> str:
        widget = self.query_one(f"#{key}")
        return (
            widget.text if isinstance(widget, TextArea) else self.query_one(f"#{key}", Input).value
        )
