"""Keys of the table of actions, run in the order they were typed."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.widget import Widget

from dspark_tui.textual_private import forward


async def act_on_key(widget: Widget, event: events.Key, calls: Mapping[str, str]) -> bool:
    """Run the screen's action for the key, if it has one; True when the key is dealt with.

    widget: who got the key, the screen itself where nothing has the focus.

    Not by way of Textual's bindings: those run only once a key has bubbled up to the app, so that
    the next keys overtake it: text typed after Enter would be sent along, and what follows Esc
    would land in the text.
    """
    if (widget.app.focused or widget.app.screen) is not widget:
        type_again(widget, event)
        return True
    if event.key in calls:
        event.stop()
        event.prevent_default()
        await widget.screen.run_action(calls[event.key])
        return True
    return False


def type_again(widget: Widget, event: events.Key) -> None:
    """Hand a key that came to the wrong widget on to where the focus is now."""
    event.stop()
    event.prevent_default()
    forward(widget.app.focused or widget.app.screen, event)
