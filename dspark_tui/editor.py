"""A text in the person's own editor, which has the terminal meanwhile."""

from __future__ import annotations

from pathlib import Path

from textual.app import App

from dspark_tui.handover import HandoverError, chosen, hand_over, private_file

USUAL = (("nano",), ("vi",))
"""Taken in this order where the person has set no editor."""

FILE_NAME = "prompt.md"


async def edited(app: App[object], text: str) -> str:
    """The text as the editor leaves it. Raises HandoverError."""
    command = chosen(("VISUAL", "EDITOR"), USUAL)
    if not command:
        raise HandoverError("no editor is installed; set $EDITOR to one")
    with private_file(FILE_NAME, text) as file:
        await hand_over(app, [*command, str(file)])
        return _read(file, text)


def _read(file: Path, before: str) -> str:
    """What the file holds, without the end of its last line, which most editors add."""
    text = file.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    return text if before.endswith("\n") else text.removesuffix("\n")
