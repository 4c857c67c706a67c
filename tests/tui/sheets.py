"""What a sheet over the workbench shows."""

from __future__ import annotations

from textual.widgets import OptionList, Static

from tests.tui.conftest import Bench


def shown(bench: Bench, selector: str) -> str:
    """A line of the screen on top."""
    return str(bench.app.screen.query_one(selector, Static).render())


def hint(bench: Bench) -> str:
    """What the sheet says of its keys."""
    return str(bench.app.screen.query_one(".sheet").border_subtitle)


def listed(bench: Bench) -> list[str]:
    """The entries of its list."""
    options = bench.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(n).prompt) for n in range(options.option_count)]


async def asked(bench: Bench) -> None:
    """A broadcast that all panes have answered; the keys go to the panes."""
    await bench.send("Explain rainbows.")
    await bench.until_idle()
    await bench.press("escape")
