"""Keys typed faster than screens come and go: each acts where the one before it led."""

from __future__ import annotations

import pytest
from textual import events

from dspark_tui.screens.params import ParamsForm
from dspark_tui.screens.sessions import Sessions
from tests.tui.conftest import Bench, OpenBench, panes


async def typed_at_once(bench: Bench, keys: list[str]) -> None:
    """All of them before any is dealt with: the pilot would wait after each."""
    for key in keys:
        bench.app.post_message(events.Key(key, key if len(key) == 1 else None))
    await bench.pilot.pause()


@pytest.mark.parametrize(
    "keys",
    [
        ["f1", "escape"],
        ["f2", "escape"],
        ["f5", "escape"],
        ["ctrl+r", "escape"],
        ["escape", "question_mark", "q", "i"],
        ["escape", "d", "escape", "i"],
        ["escape", "B", "escape", "i"],
        ["escape", "K", "escape", "i"],
        ["escape", "O", "escape", "i"],
        ["escape", "w", "escape", "i"],
        ["escape", "slash", "escape", "i"],
        ["escape", "x", "escape", "i"],
        ["escape", "x", "n", "i"],
    ],
    ids=" ".join,
)
async def test_what_follows_the_key_that_closes_a_screen_is_for_the_one_below(
    open_bench: OpenBench, keys: list[str]
) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await typed_at_once(bench, [*keys, *"so", "f2"])
        await bench.until(lambda: isinstance(bench.app.screen, ParamsForm))
        assert bench.composer.text == "so"
        assert len(bench.workbench.session.panes) == 2


async def test_a_question_is_answered_and_the_text_goes_on(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await typed_at_once(bench, ["escape", "x", "enter", "i", *"so"])
        await bench.until(lambda: bench.composer.text == "so")
        await bench.until(lambda: len(bench.workbench.session.panes) == 1)


@pytest.mark.parametrize("key", ["ctrl+n", "enter"])
async def test_what_follows_the_choice_of_a_session_is_for_that_session(
    open_bench: OpenBench, key: str
) -> None:
    async with open_bench(settings=panes(1)) as bench:
        await bench.send("hello")
        await bench.until_idle()
        bench.workbench.action_new_session()
        await bench.until(lambda: not bench.conversation(1).turns)
        await bench.send("another")
        await bench.until_idle()
        await bench.press("escape", "O")
        screen = bench.app.screen
        assert isinstance(screen, Sessions)
        await bench.until(lambda: screen.highlighted)
        old = bench.workbench
        await typed_at_once(bench, ["down", key, *"xso"])
        await bench.until(lambda: bench.composer.text == "xso")
        assert bench.workbench is not old
        assert len(old.session.panes) == 1
        assert not old.composer.text


async def test_what_follows_enter_in_the_palette_is_for_what_that_leads_to(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.until(lambda: "paper" in bench.app.available_themes)
        await bench.send("hello")
        await bench.until_idle()
        await typed_at_once(
            bench, ["escape", "ctrl+p", *"theme", "enter", *"paper", "enter", "i", *"so"]
        )
        await bench.until(lambda: bench.composer.text == "so")
        assert bench.app.theme == "paper"
        assert len(bench.conversation(1).turns) == 1


@pytest.mark.parametrize(
    ("action", "keys"),
    [
        ("rename", ["a", "enter"]),
        ("find", ["h", "enter"]),
        ("parameters", ["a", "escape"]),
        ("sessions", ["a", "escape"]),
        ("help", ["escape"]),
    ],
)
async def test_a_dialog_that_the_palette_opens_has_the_keys_that_follow(
    open_bench: OpenBench, action: str, keys: list[str]
) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await typed_at_once(bench, ["escape", "ctrl+p", *action, "enter", *keys, "i", *"so"])
        await bench.until(lambda: bench.composer.text == "so")
        assert len(bench.workbench.session.panes) == 2
        assert len(bench.conversation(1).turns) == 1


async def test_a_paste_waits_for_the_key_before_it(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("f1")
        bench.app.post_message(events.Key("escape", None))
        bench.app.post_message(events.Paste("pasted"))
        await bench.until(lambda: bench.composer.text == "pasted")
