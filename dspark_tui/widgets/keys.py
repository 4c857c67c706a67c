"""Keys of the table of actions, run in the order they were typed."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.widget import Widget


async def act_on_key(widget: Widget, event: events.Key, calls: Mapping[str, str]) -> bool:
    """Run the screen's action for the key, if it has one; True when the key is dealt with.

    widget: who got the key, the screen itself where nothing has the focus.

    Not by way of Textual's bindings: those run only once a key has bubbled up to the app, so that
    the next keys overtake it: text typed after Enter would be sent along, and what follows Esc
    would land in the text.
    """
    if (widget.app.focused or widget.app.screen) is not widget:
        dealt_with = True
        widget.app.post_message(events.Key(event.key, event.character))
    elif dealt_with := event.key in calls:
        await widget.screen.run_action(calls[event.key])
    if dealt_with:
        event.stop()
        event.prevent_default()
    return dealt_with
