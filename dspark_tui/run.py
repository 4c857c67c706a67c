"""One prompt on its way: waits for the engine, streams the answer, says how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque

from dspark_tui.link import EngineLink
from dspark_tui.session import Conversation, Turn, TurnStatus
from engine.events import Phase, RequestState

log = logging.getLogger(__name__)


class Run:
    """The task of one turn. Text collects until `drain`; no widget is called from here.

    refused: it failed in a way that it would again.
    """

    def __init__(self, pane: Conversation, turn: Turn, link: EngineLink) -> None:
        self.pane, self.turn = pane, turn
        self.request_id = ""
        self.tokens = 0
        self.reason = ""
        self.refused = False
        self.created = time.monotonic()
        self.sent: float | None = None
        self.first: float | None = None
        self.last: float | None = None
        self._link = link
        self._pieces: deque[str] = deque()
        self._cancelling: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._stream(), name=f"pane {pane.number}")

    @property
    def over(self) -> bool:
        """Has it ended, with all its text drained?"""
        return self._task.done() and not self._pieces

    def drain(self) -> str:
        """The text since the last call."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def stop(self) -> None:
        """End it now; what was written stays. The engine learns it from both cancel and hang-up."""
        if self._task.done() or self._task.cancelling():
            return
        self.turn.status = TurnStatus.STOPPED
        if self.request_id and self._link.ready.is_set():
            self._cancelling = asyncio.create_task(self._link.client.cancel(self.request_id))
        self._task.cancel()

    async def finish(self) -> None:
        """Stop, and wait until the connection is closed."""
        self.stop()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _stream(self) -> None:
        try:
            await self._link.ready.wait()
            await self._receive()
        except Exception as error:
            self._failed(error)

    async def _receive(self) -> None:
        from dspark_tui.client import CANCELLED, Accepted, Ended, Text

        self.turn.status, self.sent = TurnStatus.SENT, time.monotonic()
        params = self.pane.params
        source = self.pane.label
        updates = self._link.client.chat(self.pane.messages(), params.sampling(), source)
        async for update in updates:
            match update:
                case Accepted():
                    self.request_id = update.id
                case Text():
                    self._received(update.text)
                case Ended():
                    self.tokens = update.tokens or self.tokens
                    self.reason = update.reason
        stopped = self.reason == CANCELLED
        self.turn.status = TurnStatus.STOPPED if stopped else TurnStatus.DONE

    def _received(self, text: str) -> None:
        self.turn.status = TurnStatus.RUNNING
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.tokens += 1
        self.turn.answer += text
        self._pieces.append(text)

    def _failed(self, error: Exception) -> None:
        from dspark_tui.client import ClientError, ConnectionLostError, RefusedError

        if isinstance(error, ConnectionLostError):
            self.turn.status = TurnStatus.INTERRUPTED
        else:
            self.turn.status = TurnStatus.FAILED
        self.refused = isinstance(error, RefusedError)
        if isinstance(error, ClientError):
            self.turn.problem = str(error)
        else:
            log.exception("pane %d: the answer failed", self.pane.number)
            self.turn.problem = f"{type(error).__name__}; the log says more"

    def request(self) -> RequestState | None:
        """What the engine's events say about it, where there are events."""
        return self._link.live.engine.requests.get(self.request_id)

    def progress(self) -> str:
        """Where it is now, for the pane's border."""
        state = self.request()
        if self.turn.status is TurnStatus.WAITING:
            return "waits for the engine"
        if state is None or state.phase is Phase.FINISHED:
            return self._seen_from_here(self.tokens)
        if state.phase is Phase.QUEUED:
            why = f", {state.waiting_for}" if state.waiting_for else ""
            waited = max(0.0, self._link.now() - state.queued)
            return f"queued {_ordinal(self._place(state))}, {waited:.1f} s{why}"
        if state.phase is Phase.PREFILL:
            share = 100 * state.prefilled // max(1, state.prompt_tokens)
            return f"reading the prompt {share}%"
        return self._seen_from_here(max(state.tokens, self.tokens))

    def summary(self) -> str:
        """The figures under a finished answer."""
        if not self.tokens or self.last is None or self.sent is None:
            return ""
        parts = [f"{self.tokens} tok", f"{self.last - self.sent:.1f} s"]
        if rate := self._rate(self.tokens):
            parts.insert(1, rate)
        return "  ".join(parts)

    def _seen_from_here(self, tokens: int) -> str:
        if self.first is None or self.sent is None:
            return f"sent, {time.monotonic() - (self.sent or self.created):.1f} s"
        parts = [f"{tokens} tok", self._rate(tokens), f"ttft {self.first - self.sent:.1f} s"]
        return "  ".join(part for part in parts if part)

    def _rate(self, tokens: int) -> str:
        """Tokens over the time from the first to the latest one, stalls included."""
        if self.first is None or self.last is None or self.last - self.first < 0.2:
            return ""
        return f"{(tokens - 1) / (self.last - self.first):.1f} tok/s"

    def _place(self, state: RequestState) -> int:
        """1 is next."""
        queued = [
            request.request
            for request in self._link.live.engine.requests.values()
            if request.phase is Phase.QUEUED
        ]
        return queued.index(state.request) + 1


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"
