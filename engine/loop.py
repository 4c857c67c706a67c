"""The engine's loop: admit, read prompts, decode, hand out tokens. Runs on the engine thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import mlx.core as mx
from mlx_lm.utils import maybe_set_recommended_wired_limit

from engine.batch import Batch
from engine.bus import Clock, EventBus
from engine.cache import CachedRow, plan_for
from engine.decoder import Decoder
from engine.drafters.select import select
from engine.events import (
    Admitted,
    EngineStatus,
    Event,
    Finished,
    FirstToken,
    Phase,
    Preempted,
    Prefill,
    Progress,
    Status,
    Waiting,
    Warning,
)
from engine.events import Step as StepEvent
from engine.failures import FailureLog
from engine.memory import Memory
from engine.models.capabilities import complete
from engine.models.errors import one_line
from engine.models.load import LoadedModel
from engine.prefill import PromptReader
from engine.prefix import Tokens
from engine.row import Row
from engine.scheduler import Candidate, PrefillBudget, Scheduler
from engine.speculation import begin
from engine.step import Step, Verify
from engine.types import EngineSettings, FinishReason, GenerationRequest, KvUse, Sink

BUFFER_CACHE = 1 << 30
"""Bytes of freed buffers MLX may keep for reuse; on a GPU it would keep nearly all memory."""

FAILURES_TOLERATED = 3
"""Failed turns in a row, without one token in between, after which the engine stops."""


class Loop:
    """Everything that happens between two looks into the inbox."""

    def __init__(
        self,
        model: LoadedModel,
        settings: EngineSettings,
        bus: EventBus,
        clock: Clock,
        forget: Callable[[str], None],
    ) -> None:
        self.model = model
        self.failed = False
        self.doing = ""
        self._bus = bus
        self._clock = clock
        self._forget = forget
        self._eos = model.tokenizer.eos
        self._rows: dict[str, Row] = {}
        plan = plan_for(model.model, model.kv_bits)
        selected = select(plan, model, settings, self._report)
        self._caches = replace(plan, drafter=selected.drafter)
        self.slots = 1 if self._caches.alone else settings.max_batch
        self._memory = Memory(self._caches, settings)
        self._scheduler = Scheduler(self.slots, self._memory.budget, self._memory.cost)
        self._budget = PrefillBudget()
        self._speculation = begin(
            selected.drafter, self._caches, model, settings, clock, self._report
        )
        mx.set_cache_limit(BUFFER_CACHE)
        self._wired_before = maybe_set_recommended_wired_limit()
        self._failures = 0
        self._failure_log = FailureLog()
        self._last_read = 0.0
        self._blocked: Candidate | None = None
        self._rebuild()
        batching = self._caches.capability(settings.max_batch)
        reuse = self._memory.capability()
        for capability in complete((*model.capabilities, batching, reuse, selected.stated)):
            bus.publish(capability)

    @property
    def idle(self) -> bool:
        """Is there nothing to do until somebody wants something?"""
        return not self._rows or (self._scheduler.paused and not self._scheduler.running)

    @property
    def running(self) -> int:
        return self._scheduler.running

    @property
    def longest_row(self) -> int:
        """Tokens one row may hold: the model's context, or the memory for K/V if that is less."""
        return self._memory.longest(self.model.info.context)

    @property
    def kv_use(self) -> KvUse:
        """Memory the running rows take. Any thread."""
        return self._memory.use([row.held for row in self._seated])

    def check(self, request: GenerationRequest) -> None:
        """Refuse what can never run. Any thread. Raises ContextLengthError."""
        self._memory.check(request, self.model.info.context)

    def retry_after(self) -> int:
        """Seconds until a slot is likely free, 1 to 60. Any thread."""
        left = min((row.left for row in self._seated), default=0)
        return min(max(round(left * self._budget.step / 1000), 1), 60)

    def enqueue(self, request: GenerationRequest, sink: Sink, queued: float) -> Row:
        row = Row.create(request, sink, self.model.tokenizer, queued)
        self._rows[request.id] = row
        if self.failed:
            self._finish(row, FinishReason.ERROR, "the engine has failed")
        else:
            self._scheduler.enqueue(_candidate(row))
        return row

    def cancel(self, request_id: str) -> None:
        if row := self._rows.get(request_id):
            with self._recovering():
                self._finish(row, FinishReason.CANCELLED)

    def pause(self, paused: bool) -> None:
        """Hold admissions, or go on with them."""
        self._scheduler.paused = paused

    def turn(self) -> None:
        """One round."""
        with self._recovering():
            self._make_room()
            self._admit()
            self._read_prompts()
            self._decode()

    def fail(self, why: str) -> None:
        """End every request, for good."""
        self.failed = True
        self._rebuild()
        for row in list(self._rows.values()):
            self._finish(row, FinishReason.ERROR, why)
        self._publish(Status(self._clock.now(), EngineStatus.FAILED, error=why))

    def stop(self, why: str) -> None:
        """End every request; the arrays go with this object, on this thread."""
        self._rebuild()
        for row in list(self._rows.values()):
            self._finish(row, FinishReason.CANCELLED, why)
        mx.synchronize()
        mx.clear_cache()
        if self._wired_before is not None:
            mx.set_wired_limit(self._wired_before)

    def _make_room(self) -> None:
        """Put the youngest rows back into the queue while the rows outgrow their memory."""
        while (youngest := self._scheduler.overfull(self._longest)) is not None:
            if not self._settle():  # its tokens count, and one may be a row's last
                self._put_back(self._rows[youngest])

    def _put_back(self, row: Row) -> None:
        self._reader.remove(row)
        self._batch.leave(row)
        row.put_back()
        self._scheduler.put_back(_candidate(row))
        why = "K/V memory: the requests before it have outgrown it, and go first"
        self._publish(Preempted(self._clock.now(), row.request.id, why, len(row.tokens)))

    def _admit(self) -> None:
        self.doing = "admitting requests"
        expected = max((_candidate(row).expected for row in self._seated), default=0)
        for admission in self._scheduler.admit(expected):
            row, now = self._rows[admission.id], self._clock.now()
            row.phase, row.slot = Phase.PREFILL, admission.slot
            row.admitted = now if row.admitted is None else row.admitted
            mid_flight = bool(self._batch.rows)
            waited = now - row.queued
            self._reader.add(row)
            cached = min(row.cached, len(row.request.prompt) - 1)
            self._publish(Admitted(now, admission.id, admission.slot, waited, mid_flight, cached))
        blocked = self._scheduler.blocked()
        if blocked is not self._blocked and blocked is not None:
            why = self._memory.shortage(blocked, self._scheduler.running, expected)
            self._publish(Waiting(self._clock.now(), blocked.id, why))
        self._blocked = blocked

    @property
    def _longest(self) -> int:
        """Tokens of the longest running row."""
        return max((row.length for row in self._seated), default=0)

    @property
    def _seated(self) -> list[Row]:
        """The rows that have a slot. Any thread."""
        return [row for row in list(self._rows.values()) if row.slot is not None]

    def _known(self, tokens: Tokens) -> CachedRow | None:
        """The longest beginning of `tokens` that a row has read, be it running or ended."""
        known = (self._memory.find(tokens), self._batch.find(tokens))
        return max(known, key=lambda row: row.length if row else 0)

    def _read_prompts(self) -> None:
        if not self._reader:
            return
        self._settle()  # so that the slice is timed alone and no token waits behind it
        budget = self._budget.tokens(len(self._batch.rows), len(self._reader))
        self.doing = f"reading the prompts of {len(self._reader)} requests"
        started = self._clock.now()
        piece = self._reader.read(budget)
        now = self._clock.now()
        milliseconds = (now - started) * 1000
        if piece.tokens:
            self._budget.record_slice(piece.tokens, milliseconds)
        for row in piece.rows:
            total = row.length
            done = total if row.unread == 0 else row.read
            self._publish(Prefill(now, row.request.id, done, total, milliseconds))
        if piece.ready:
            self._memory.keep_ends(piece.ready)
            self._batch.join(piece.ready)
            for row in piece.ready.joining:
                row.begin()
                if not row.left:
                    self._finish(row, FinishReason.LENGTH)
        else:
            self._batch.expect(piece.rows)

    def _decode(self) -> None:
        count = len(self._batch.rows)
        self.doing = f"a step of {count} {'row' if count == 1 else 'rows'}"
        for step in self._decoder.steps():
            self._hand_out(step)

    def _settle(self) -> bool:
        """Hand out the step in flight; False if there is none."""
        for step in self._decoder.settled():
            self._hand_out(step)
            return True
        return False

    def _hand_out(self, step: Step) -> None:
        started = max(step.launched_at, self._last_read)
        picked = step.read()
        now = self._last_read = self._clock.now()
        took = [row.take(given, self._eos) for row, given in zip(step.rows, picked, strict=True)]
        gained = [taken.tokens for taken in took]
        if isinstance(step, Verify):
            self._batch.keep(step, gained)
        if any(gained):
            self._note_step(step, gained, now, (now - started) * 1000)
        for row, taken in zip(step.rows, took, strict=True):
            if taken.failure is not None:
                self._failure_log.note(f"request {row.request.id} failed", taken.failure)
                self._finish(row, FinishReason.ERROR, one_line(taken.failure))
            elif taken.reason is not None:
                self._finish(row, taken.reason)

    def _note_step(self, step: Step, gained: list[int], now: float, milliseconds: float) -> None:
        self._failures = 0
        self._budget.record_step(milliseconds)
        rows = [(row, count) for row, count in zip(step.rows, gained, strict=True) if count]
        for row, _ in rows:
            if row.first_token is None:
                row.first_token = now
                self._publish(FirstToken(now, row.request.id))
        tokens = {row.request.id: count for row, count in rows}
        self._publish(StepEvent(now, step.kind, len(step.rows), tokens, milliseconds))
        speculation = self._speculation
        if speculation and (news := speculation.record(step, gained, milliseconds)):
            self._publish(news)

    def _finish(self, row: Row, reason: FinishReason, error: str | None = None) -> None:
        """Free what the row holds, wherever it is, then tell the subscribers and its client, in
        this order: whoever has an answer finds the engine's state to agree."""
        if row.phase is Phase.QUEUED:
            self._scheduler.drop_queued(row.request.id)
        else:
            self._reader.remove(row)
            self._batch.leave(row)
            self._scheduler.release(row.request.id)
        if self._speculation is not None:
            self._speculation.leave(row)
        del self._rows[row.request.id]
        self._forget(row.request.id)
        now = self._clock.now()
        taken = now - row.queued
        self._publish(Finished(now, row.request.id, reason, len(row.tokens), taken, error))
        try:
            row.finish(reason, now, error)
        except Exception as failure:
            self._failure_log.note(f"request {row.request.id}: its end was not delivered", failure)

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """A failure ends the rows that were running, and only those."""
        try:
            yield
        except Exception as error:
            self._recover(error)

    def _recover(self, error: Exception) -> None:
        """A step that raised: its rows get the error once, the queue goes on with a new batch."""
        self._failure_log.note("a step failed", error)
        self._failures += 1
        running = [row for row in self._rows.values() if row.phase is not Phase.QUEUED]
        self._rebuild()
        self._memory.clear()  # what failed may have been for want of memory
        for row in running:
            self._finish(row, FinishReason.ERROR, f"the engine failed: {one_line(error)}")
        self._publish(Warning(self._clock.now(), "step_failed", one_line(error)))
        if self._failures >= FAILURES_TOLERATED:
            self.fail(f"stopped after {self._failures} failures in a row: {one_line(error)}")

    def _rebuild(self) -> None:
        """An empty batch and reader."""
        self._reader = PromptReader(self._caches, self._known)
        self._batch = Batch(self._caches, self._clock, self._memory.keep, self.model.agreed)
        self._decoder = Decoder(self._batch, self._speculation)
        self._blocked = None

    def _report(self, progress: Progress) -> None:
        """What takes a while before the first request can run."""
        self._publish(Status(self._clock.now(), EngineStatus.LOADING, progress))

    def _publish(self, event: Event) -> None:
        self._bus.publish(event)


def _candidate(row: Row) -> Candidate:
    return Candidate(row.request.id, row.length, row.left)
