"""What is drawn in words can be read in every theme: measured on what goes to the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from textual.app import App
from textual.screen import ModalScreen
from textual.widget import Widget

from dspark_tui.appearance.theming import contrast
from tests.tui.conftest import OpenBench, fast, panes
from tests.tui.sheets import asked

LEAST = {"contrast": 7.0, "tide": 4.5, "frost": 4.5}
"""The ratio of text to what is behind it that a theme has to keep: of the one that promises it for
all text, and of the faintest dark one and the faintest light one."""

SCREENS: dict[str, Sequence[str]] = {
    "the composer": ("i",),
    "the requests": ("L", "up"),
    "the parameters' form": ("f2",),
    "the sessions": ("O",),
    "the prompts": ("i", "ctrl+r"),
    "the experiment's form": ("f5",),
    "the experiment": ("f5", "ctrl+s"),
    "a cell": ("f5", "ctrl+s", "enter"),
    "the help": ("f1",),
    "the differences": ("d",),
    "the figures": ("B",),
    "the repeats": ("K",),
    "the answers": ("K", "enter"),
    "the export": ("w",),
}
"""The keys that lead to each."""


@pytest.mark.parametrize("screen", SCREENS)
async def test_all_words_keep_the_contrast_that_the_theme_promises(
    open_bench: OpenBench, screen: str
) -> None:
    async with open_bench(script=fast(), settings=panes(2)) as bench:
        await asked(bench)
        await bench.press(*SCREENS[screen])
        await bench.until(lambda: "contrast" in bench.app.available_themes)
        faint = {}
        for name, least in LEAST.items():
            bench.app.theme = name
            await bench.pilot.pause()
            faint[name] = {words: ratio for words, ratio in drawn(bench.app) if ratio < least}
        assert not any(faint.values()), faint


def largest(screen: ModalScreen[object]) -> Widget:
    return max(screen.query("*"), key=lambda widget: widget.region.area)  # what is seen of it


def drawn(app: App[None]) -> Iterator[tuple[str, float]]:
    """The words on the screen, with the contrast they have there: in a dialog, only its own."""
    screen = app.screen
    seen = largest(screen).region if isinstance(screen, ModalScreen) else screen.region
    for strip in screen._compositor.render_strips()[seen.y : seen.bottom]:
        for text, style, _ in strip.crop(seen.x, seen.right):
            if style is None or not any(sign.isalnum() for sign in text):
                continue
            assert style.color is not None, text
            assert style.bgcolor is not None, text
            front, back = style.color.get_truecolor().hex, style.bgcolor.get_truecolor().hex
            if style.reverse:
                front, back = back, front
            yield text.strip(), round(contrast(front, back), 2)


@pytest.mark.parametrize("theme", LEAST)
async def test_the_palette_keeps_it_and_what_only_comes_along_is_fainter(
    open_bench: OpenBench, theme: str
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.until(lambda: theme in bench.app.available_themes)
        bench.app.theme = theme
        await bench.pilot.pause()
        await bench.press("ctrl+p")
        await bench.until(lambda: "go back to typing" in dict(drawn(bench.app)))
        ratios = dict(drawn(bench.app))
        assert ratios["go back to typing"] < ratios["To the composer"]
        assert min(ratios.values()) >= LEAST[theme]
