"""What all dialogs share: their styles, which the first frame doesn't wait for."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.screen import ModalScreen

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A screen over another one."""

    CSS_PATH: ClassVar = ["../styles/dialogs.tcss"]
