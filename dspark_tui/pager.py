"""A text in the person's own pager, which has the terminal meanwhile."""

from __future__ import annotations

from textual.app import App

from dspark_tui.handover import HandoverError, chosen, hand_over, private_file
from dspark_tui.text.foreign import harmless

USUAL = (("less", "-R", "-+F"),)
"""Where the person has set no pager. It stays where all fits on one screen, whatever $LESS says."""

FILE_NAME = "conversation.md"


async def paged(app: App[object], text: str) -> None:
    """Show the text, its control characters as pictures of them. Raises HandoverError."""
    command = chosen(("PAGER",), USUAL)
    if not command:
        raise HandoverError("no pager: less is not installed and $PAGER names no other")
    with private_file(FILE_NAME, harmless(text) + "\n") as file:
        await hand_over(app, [*command, str(file)])
