"""One prompt to all panes, or a conversation line by line: plain text, no screen."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dspark_tui.config import Settings
from dspark_tui.conversation.answer import Answer, aggregate, opening
from dspark_tui.conversation.params import PaneParams
from dspark_tui.engines.chat_updates import Message
from dspark_tui.exit_codes import Exit
from dspark_tui.headless import HeadlessError, all_connected, say, stopped_by_term
from dspark_tui.paths import Paths
from dspark_tui.plain import heading, show

if TYPE_CHECKING:
    from dspark_tui.engines.client import EngineClient

Clients = Mapping[str, "EngineClient"]
"""Of the engines, by their names in the settings; "" is the usual one."""


class Order(Struct, frozen=True):
    """What was asked for. prompt "": lines from the terminal, one after the other. record: where
    the events of the first pane's engine go."""

    settings: Settings
    paths: Paths
    prompt: str
    as_json: bool = False
    record: Path | None = None

    def connected(self) -> AbstractAsyncContextManager[Clients]:
        """Clients of the panes' engines."""
        engines = (params.engine for params in self.settings.panes)
        return all_connected(self.settings, self.paths, engines, self.record)


class Pane(Struct):
    """One conversation. number: 1, 2, …; answer: the latest."""

    number: int
    params: PaneParams
    messages: list[Message]
    answer: Answer = field(default_factory=Answer)

    async def ask(self, clients: Clients, prompt: str) -> Pane:
        """Itself, once the answer is there or has a problem."""
        from dspark_tui.engines.client_errors import ClientError

        self.answer = Answer()
        self.messages.append({"role": "user", "content": prompt})
        label = f"{self.number} {self.params.name}".rstrip()
        try:
            with suppress(ClientError):  # the answer says what went wrong
                client = clients[self.params.engine]
                await self.answer.receive(client, self.messages, self.params, label)
        finally:
            self._remember()
        return self

    def _remember(self) -> None:
        """A prompt that brought nothing is not part of the conversation."""
        if self.answer.text:
            self.messages.append({"role": "assistant", "content": self.answer.text})
        else:
            self.messages.pop()


def run(order: Order) -> int:
    """Ask, and answer; the exit code.

    Raises BrokenPipeError when nobody reads any more.
    """
    panes = [
        Pane(number, params, opening(params.system))
        for number, params in enumerate(order.settings.panes, 1)
    ]
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding lacks is written as escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if not order.prompt:
            return _converse(order, panes)
        with stopped_by_term():
            asyncio.run(_once(order, panes))
    except HeadlessError as error:
        say(f"dspark-tui: {error}")
        return Exit.FAILED
    return Exit.FAILED if any(pane.answer.problem for pane in panes) else Exit.DONE


def _converse(order: Order, panes: Sequence[Pane]) -> int:
    """Ctrl+C ends the answers, at the prompt the conversation; so does Ctrl+D."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        clients = runner.run(stack.enter_async_context(order.connected()))
        say(_welcome(clients, len(panes)))
        try:
            while (line := _line()) is not None:
                with suppress(KeyboardInterrupt):
                    if line.strip():
                        runner.run(_turn(clients, panes, line))
        finally:
            runner.run(stack.aclose())
    return Exit.DONE


def _welcome(clients: Clients, panes: int) -> str:
    """Who is there, and the ways out."""
    models = ", ".join(dict.fromkeys(client.model or "" for client in clients.values()))
    who = models if panes == 1 else f"{panes} panes, {models}"
    return f"{who}. Enter sends a line, Ctrl+C ends an answer, Ctrl+D the conversation."


def _line() -> str | None:
    """The next line from the terminal, None at its end."""
    try:
        return input("> ")
    except EOFError:
        print()  # the shell's prompt is to begin a line
        return None


async def _once(order: Order, panes: Sequence[Pane]) -> None:
    async with order.connected() as clients:
        if not order.as_json:
            await _turn(clients, panes, order.prompt)
            return
        try:
            async with aclosing(_answered(clients, panes, order.prompt)) as answered:
                async for pane in answered:
                    _complain(pane)
        finally:
            document = _document(order.prompt, clients, panes)
            show(json.dumps(document, ensure_ascii=False, indent=1))


async def _turn(clients: Clients, panes: Sequence[Pane], prompt: str) -> None:
    """Show each pane's answer when it is complete; if this is cancelled, what there is of it."""
    left = list(panes)
    try:
        async with aclosing(_answered(clients, panes, prompt)) as answered:
            async for pane in answered:
                left.remove(pane)
                _show(pane, len(panes))
    except asyncio.CancelledError:
        for pane in left:
            _show(pane, len(panes))
        raise
    broken = sum(bool(pane.answer.problem) for pane in panes)
    if broken and len(panes) > 1:
        say(f"dspark-tui: {broken} of {len(panes)} panes gave no whole answer")
    total = aggregate(pane.answer for pane in panes)
    if total is not None:
        say(f"{total.rate:.1f} tok/s = {total.tokens} tok / {total.seconds:.2f} s")


async def _answered(
    clients: Clients, panes: Sequence[Pane], prompt: str
) -> AsyncGenerator[Pane, None]:
    """The panes as their answers end; those that haven't when this is closed are interrupted."""
    asked = [asyncio.create_task(pane.ask(clients, prompt)) for pane in panes]
    try:
        for ended in asyncio.as_completed(asked):
            yield await ended
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


def _show(pane: Pane, panes: int) -> None:
    """An answer that is the only one stands alone, so that it can be used as it is."""
    if panes == 1:
        _complain(pane)
        show(pane.answer.text)
    else:
        show(f"{heading(pane.number, pane.params, pane.answer)}\n{pane.answer.text}\n")


def _complain(pane: Pane) -> None:
    if pane.answer.problem:
        say(f"dspark-tui: pane {pane.number}: {pane.answer.problem}")


def _document(prompt: str, clients: Clients, panes: Sequence[Pane]) -> dict[str, Any]:
    """Everything as JSON; times in seconds from sending."""
    total = aggregate(pane.answer for pane in panes)
    return {
        "prompt": prompt,
        "model": clients[panes[0].params.engine].model,
        "panes": [_pane_document(pane, clients[pane.params.engine]) for pane in panes],
        "aggregate": total
        and {
            "tokens": total.tokens,
            "seconds": round(total.seconds, 3),
            "tokens_per_second": round(total.rate, 3),
        },
    }


def _pane_document(pane: Pane, client: EngineClient) -> dict[str, Any]:
    answer = pane.answer
    return {
        "pane": pane.number,
        "name": pane.params.name,
        "engine": pane.params.engine or None,
        "model": client.model,
        "parameters": {"system": pane.params.system, **pane.params.sampling()},
        "answer": answer.text,
        "finish_reason": answer.reason or None,
        "error": answer.problem or None,
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.tokens,
            "cached_tokens": answer.cached_tokens,
        },
        "ttft": _rounded(answer.ttft),
        "completion_time": _rounded(answer.completion_time),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
