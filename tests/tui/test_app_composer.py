"""Typing: earlier prompts, commands, files, the length of the text; the draft survives it all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response
from msgspec.structs import replace
from textual.widgets import Input, OptionList

from dspark_tui.keymap import read_keymap
from dspark_tui.screens.help import Help
from dspark_tui.screens.params import ParamsForm
from dspark_tui.screens.prompts import PromptList
from tests.tui.conftest import Bench, OpenBench, fast, panes

Serve = Callable[[FastAPI], AbstractAsyncContextManager[str]]

PROMPTS = ("what is rain", "Name a bird\nthat sings", "what is a bird", "tell [/x] a joke")


def listed(bench: Bench) -> list[str]:
    options = bench.app.screen.query_one(OptionList)
    return [str(option.prompt) for option in options.options]


def lower_border(bench: Bench) -> str:
    return str(bench.composer.border_subtitle)


async def remembering(bench: Bench) -> None:
    for prompt in PROMPTS:
        bench.workbench.session.remember(prompt)
    await bench.type("half a thought")
    await bench.press("left")


async def test_up_goes_through_earlier_prompts_and_down_comes_back_to_the_draft(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await remembering(bench)
        caret = bench.composer.cursor_location
        await bench.press("up")
        assert bench.composer.text == PROMPTS[-1]
        await bench.press("up", "up")
        assert bench.composer.text == PROMPTS[-3]
        await bench.press("up", "up", "up", "up")
        assert bench.composer.text == PROMPTS[0]
        await bench.press("down", "down", "down", "down", "down")
        assert bench.composer.text == "half a thought"
        assert bench.composer.cursor_location == caret
        await bench.press("down")
        assert bench.composer.text == "half a thought"


async def test_a_draft_left_for_an_earlier_prompt_is_not_lost(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await remembering(bench)
        await bench.press("up", "backspace", "backspace", "enter")
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.turn(1).prompt == PROMPTS[-1][:-2]
        await bench.press("up", "up")
        assert bench.composer.text == "half a thought"


async def test_prompts_are_found_by_words_newest_first(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await remembering(bench)
        await bench.press("ctrl+r")
        assert isinstance(bench.app.screen, PromptList)
        assert listed(bench)[0] == "tell [/x] a joke"
        await bench.press(*"bird")
        assert listed(bench) == ["what is a bird", "Name a bird  +1 lines"]
        await bench.press("down", "enter")
        assert bench.app.screen is bench.workbench
        assert bench.composer.text == PROMPTS[1]
        await bench.press("down", "down", "down")
        await bench.press("down")
        assert bench.composer.text == "half a thought"


async def test_keys_typed_at_once_after_ctrl_r_search(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await remembering(bench)
        await bench.press("ctrl+r", *"rain", "enter")
        assert bench.composer.text == "what is rain"


async def test_leaving_the_search_leaves_the_draft(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+r")
        assert bench.notices() == ["no earlier prompts yet"]
        await remembering(bench)
        draft = bench.composer.draft
        await bench.press("ctrl+r", *"nothing has this")
        assert listed(bench) == []
        await bench.press("enter", "down", "escape")
        assert bench.composer.draft == draft
        assert bench.composer.has_focus


async def test_the_draft_survives_every_screen(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.send("hello")
        await bench.until_idle()
        await remembering(bench)
        draft = bench.composer.draft
        assert draft.caret == (0, len("half a though"))
        typing = ("f1", "f2", "ctrl+p", "ctrl+r", "f5")
        in_panes = ("O", "d", "B", "K", "w", "R", "slash", "x")
        for key in (*typing, "escape", *in_panes, "i"):
            await bench.press(key)
            if key not in ("escape", "i"):
                await bench.until(lambda: bench.app.screen is not bench.workbench)
                await bench.press("escape")
                await bench.until(lambda: bench.app.screen is bench.workbench)
                assert bench.composer.draft == draft, key
        for key in ("f3", "f3", "f3", "f3", "f4", "ctrl+t", "ctrl+t", "tab"):
            await bench.press(key)
        assert bench.composer.draft == draft


async def test_a_slash_and_an_action_s_name_run_it(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press(*"/help", "enter")
        assert isinstance(bench.app.screen, Help)
        await bench.press("escape")
        assert bench.composer.text == ""
        await bench.press(*"/zom", "enter")
        assert bench.notices() == ["no action is called /zom (/zoom?); a blank before it sends it"]
        assert bench.composer.text == "/zom"
        await bench.press("home", "space", "enter")
        await bench.until(lambda: bench.conversation(1).turns)
        assert bench.turn(1).prompt == " /zom"


async def test_tab_completes_a_command_and_lists_what_it_may_be(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press(*"/zo", "tab")
        assert bench.composer.text == "/zoom"
        await bench.press("tab")
        assert bench.workbench.session.active is bench.conversation(2)
        await bench.press("ctrl+c", *"/scroll_b", "tab")
        assert bench.composer.text == "/scroll_back"
        await bench.press("ctrl+c", *"/choo", "tab")
        assert bench.composer.text == "/choose"
        assert lower_border(bench).split() == ["/choose", "/choose_all"]
        await bench.press("x")
        assert "/choose_all" not in lower_border(bench)


async def test_tab_with_nothing_to_complete_goes_to_the_next_pane(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        for text in ("", "words", "/nothing_like_it", "a /zo", "@no/such/file"):
            before = bench.workbench.session.active
            await bench.type(text)
            await bench.press("tab")
            assert bench.workbench.session.active is not before
            assert bench.composer.text == text
            await bench.press("ctrl+c")


async def test_a_file_is_attached_by_its_path(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.md").write_bytes("é\r\n[/x]\n".encode())
    (tmp_path / "notes" / "only me.md").write_text("a blank in the name")
    (tmp_path / "notes" / "other.md").write_text("x")
    async with open_bench() as bench:
        await bench.press(*"see @no", "tab")
        assert bench.composer.text == "see @notes/"
        await bench.press("o", "tab")
        assert lower_border(bench).split() == ["@notes/one.md", "@notes/other.md"]
        await bench.press("n", "tab")
        await bench.until(lambda: "one.md 1: 2 lines, 9 B" in bench.composer.text)
        assert bench.composer.prompt == "see é\r\n[/x]\n"
        await bench.press("backspace")
        assert bench.composer.text == "see "
        await bench.press("ctrl+z")
        assert bench.composer.prompt == "see é\r\n[/x]\n"


async def test_a_file_that_can_t_be_attached_says_why(
    open_bench: OpenBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "large.txt").write_bytes(b"x" * 1_000_001)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    async with open_bench() as bench:
        await bench.press(*"@large.txt", "tab")
        await bench.press("ctrl+c", *"@binary.txt", "tab")
        assert bench.composer.text == "@binary.txt"
        assert "large.txt is larger than 1 MB" in bench.notices()
        assert "binary.txt is not UTF-8 text" in bench.notices()


async def test_the_border_says_how_long_the_text_is(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.until(lambda: bench.workbench.link.ready.is_set())
        await bench.type("four words are here")
        await bench.until(lambda: "4 tokens" in lower_border(bench))
        await bench.type(" x" * 9_000)
        await bench.until(lambda: "9,004 tokens: the model takes 8,192" in lower_border(bench))
        await bench.press("ctrl+c")
        await bench.until(lambda: lower_border(bench) == "")


async def test_tokens_are_counted_once_the_engine_is_ready(open_bench: OpenBench) -> None:
    script = fast(loading=True)
    async with open_bench(script) as bench:
        await bench.type("four words are here")
        assert lower_border(bench) == ""
        script.loading = False
        await bench.until(lambda: "4 tokens" in lower_border(bench))


async def test_a_server_that_counts_no_tokens_is_asked_once(
    open_bench: OpenBench, serve: Serve
) -> None:
    app, asked = FastAPI(), []

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"data": [{"id": "plain"}]}

    @app.middleware("http")
    async def note(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        asked.append(request.url.path)
        return await call_next(request)

    async with serve(app) as url, open_bench(place=url) as bench:
        await bench.until(lambda: bench.workbench.link.ready.is_set())
        count = bench.workbench.count_tokens
        assert [await count(text) for text in ("one", "two")] == [None, None]
        assert asked.count("/tokenize") == 1


async def test_without_vim_keys_letters_move_nothing_and_arrows_do(open_bench: OpenBench) -> None:
    keymap, problems = read_keymap({"zoom": "j"}, vim=False)
    assert problems == []
    async with open_bench(settings=replace(panes(3), keys=keymap)) as bench:
        await bench.press("escape")
        first = bench.workbench.session.active
        await bench.press("l", "h", "h")
        assert bench.workbench.session.active is first
        await bench.press("right")
        assert bench.workbench.session.active is bench.conversation(2)
        await bench.press("left", "j")
        await bench.until(lambda: bench.pane(1).region.width == 120)


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_a_system_prompt_of_several_lines_is_set_by_keys_alone(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(size=size) as bench:
        await bench.press("f2")
        assert isinstance(bench.app.screen, ParamsForm)
        await bench.press("tab", *"be", "space", *"brief", "enter", *"and kind")
        system = bench.app.screen.query_one("#system")
        assert bench.app.screen.region.contains_region(system.region)
        assert system.content_size.height >= 3
        await bench.press("f2")
        assert bench.app.screen is bench.workbench
        assert bench.conversation(1).params.system == "be brief\nand kind"
        await bench.press("f2", "tab", "tab")
        field = bench.app.focused
        assert isinstance(field, Input)
        assert bench.app.screen.region.contains_region(field.region)
