"""One prompt on its way: waits for the engine, streams the answer, says how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections import deque
from typing import Any

from msgspec.structs import replace

from dspark_tui.batch.ending import BY_ANOTHER_CLIENT
from dspark_tui.conversation.params import DRAWN_SEED_BITS
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Turn, TurnStatus
from dspark_tui.conversation.turns import new_id
from dspark_tui.engines.link import EngineLink
from engine.events import Phase, RequestState

log = logging.getLogger(__name__)

CONTINUES = {"continue_final_message": True, "add_generation_prompt": False}
"""Request fields that make the last message the answer's beginning; servers that don't know them
see it by the message's role, or answer anew."""


class Run:
    """The task of one turn. Text collects until `drain`; no widget is called from here.

    A turn that has some answer already is continued. refused: it failed in a way that it would
    again. record: what is kept of it, as far as it got.
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
        self._ended: float | None = None
        self.continues = bool(turn.answer)
        self._link = link
        self._record = RequestRecord(new_id())
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
        if self._task.done() or self._task.cancelling() or self._ended is not None:
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
        finally:
            if self.sent is not None:
                self._ended = time.monotonic()
                await self._link.told_of_end(self.request_id)
                self._record = self.record()
                self.turn.requests.append(self._record)

    async def _receive(self) -> None:
        from dspark_tui.engines.chat_updates import CANCELLED, Accepted, Ended, Text

        self.turn.status, self.sent = TurnStatus.SENT, time.monotonic()
        sampling = self._sampling()
        model = self._link.live.engine.model
        self._record = replace(
            self._record,
            model=model.id if model else "",
            sampling=json.dumps(sampling),
            system=self.pane.params.system,
            sent=time.time(),
        )
        updates = self._link.client.chat(self.pane.messages(), sampling, self.pane.label)
        async for update in updates:
            match update:
                case Accepted():
                    self.request_id = update.id
                case Text():
                    self._received(update.text)
                case Ended():
                    self.tokens = update.tokens or self.tokens
                    self.reason = update.reason
                    self._record = replace(
                        self._record,
                        prompt_tokens=update.prompt_tokens,
                        cached_tokens=update.cached_tokens,
                    )
        stopped = self.reason == CANCELLED
        if stopped:  # not by `stop`, which ends this task at once
            self.turn.problem = BY_ANOTHER_CLIENT
        self.turn.status = TurnStatus.STOPPED if stopped else TurnStatus.DONE

    def _sampling(self) -> dict[str, Any]:
        """The request's fields. The seed is drawn here, so that it is known afterwards.

        Not for a server that hides its batch: some leave it as soon as a request has a seed.
        """
        params = self.pane.params
        if self.turn.seed is None:
            self.turn.seed = params.seed
        if self.turn.seed is None and not self._link.batch_hidden:
            self.turn.seed = random.getrandbits(DRAWN_SEED_BITS)
        seed = {} if self.turn.seed is None else {"seed": self.turn.seed}
        return params.sampling() | seed | (CONTINUES if self.continues else {})

    def record(self) -> RequestRecord:
        """The request as it stands now; complete once the run is over."""
        if self.sent is None or self._task.done():
            return self._record
        state, way = self.request(), 0.0
        if state is None or (self._ended is not None and state.finished is None):
            state = self._by_stopwatch(self.sent)
        else:
            way = max(0.0, state.queued - self._link.clock.now(self.sent))
        return replace(
            self._record,
            sent=self._record.sent + way,
            request=self.request_id,
            waited=_since(state.queued, state.admitted),
            first=_since(state.queued, state.first_token),
            last=_since(state.queued, state.last_token),
            ended=_since(state.queued, state.finished),
            tokens=state.tokens,
            reason=self.reason,
            **self._prompt_counts(),
        )

    def _prompt_counts(self) -> dict[str, int | None]:
        """Of the prompt's tokens, by the events where no end of the answer brings the counts."""
        state = self.request()
        if state is None or self._link.batch_hidden or self._record.prompt_tokens is not None:
            return {}
        cached = None if state.admitted is None else state.cached_tokens
        return {"prompt_tokens": state.prompt_tokens, "cached_tokens": cached}

    def _by_stopwatch(self, sent: float) -> RequestState:
        """As it is seen from here, on our own clock."""
        return RequestState(
            request=self.request_id,
            source=self.pane.label,
            phase=Phase.DECODE if self._ended is None else Phase.FINISHED,
            prompt_tokens=0,
            max_tokens=self.pane.params.max_tokens,
            queued=sent,
            first_token=self.first,
            last_token=self.last,
            tokens=self.tokens,
            finished=self._ended,
        )

    def _received(self, text: str) -> None:
        self.turn.status = TurnStatus.RUNNING
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.tokens += 1
        self.turn.answer += text
        self._pieces.append(text)

    def _failed(self, error: Exception) -> None:
        from dspark_tui.engines.client_errors import ClientError, ConnectionLostError, RefusedError

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
        if state is None or state.phase is Phase.FINISHED or self._link.batch_hidden:
            return self._figures()
        if state.phase is Phase.QUEUED:
            held = "paused" if self._link.live.engine.paused else state.waiting_for
            why = f", {held}" if held else ""
            waited = max(0.0, self._link.now() - state.queued)
            return f"queued {_ordinal(self._place(state))}, {waited:.1f} s{why}"
        if state.phase is Phase.PREFILL:
            return self._reading(state)
        return self._figures()

    def _reading(self, state: RequestState) -> str:
        """How much of the prompt is read; how long that takes, until the engine has told any."""
        prompt = f"{state.prompt_tokens:,}"
        if done := max(state.prefilled, state.cached_tokens):
            return f"read {done:,} of {prompt} prompt tok"
        seconds = max(0.0, self._link.now() - (state.admitted or state.queued))
        return f"reading {prompt} prompt tok  {seconds:.1f} s"

    def _figures(self) -> str:
        record = self.record()
        if record.first is None:
            return f"sent, {time.monotonic() - (self.sent or self.created):.1f} s"
        rate = "" if record.rate is None else f"{record.rate:.1f} tok/s"
        parts = (f"{record.tokens:,} tok", rate, f"ttft {record.first:.1f} s")
        return "  ".join(part for part in parts if part)

    def _place(self, state: RequestState) -> int:
        """1 is next."""
        queued = [
            request.request
            for request in self._link.live.engine.requests.values()
            if request.phase is Phase.QUEUED
        ]
        return queued.index(state.request) + 1


def _since(start: float, time: float | None) -> float | None:
    return None if time is None else time - start


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"
