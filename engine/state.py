"""Fold events into the current state of the engine.

One fold serves both ends: the engine answers `/engine/state` and opens every subscription with it,
and the workbench's `live.py` builds its lanes on top of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.events import (
    Admitted,
    Capability,
    EngineStatus,
    Event,
    Finished,
    FirstToken,
    Load,
    ModelInfo,
    Paused,
    Phase,
    Preempted,
    Prefill,
    Progress,
    Queued,
    RequestState,
    Snapshot,
    Speculation,
    Status,
    Step,
    Waiting,
)

FINISHED_KEPT = 64
"""Finished requests a snapshot still carries, so that a late subscriber sees the last bursts."""


@dataclass(slots=True)
class EngineState:
    """Mutable; `apply` is the only writer. requests: in order of submission."""

    status: EngineStatus = EngineStatus.LOADING
    progress: Progress | None = None
    error: str | None = None
    model: ModelInfo | None = None
    slots: int = 0
    queue_limit: int = 0
    pid: int = 0
    paused: bool = False
    speculation: Speculation | None = None
    load: Load | None = None
    time: float = 0.0
    wall: float = 0.0
    requests: dict[str, RequestState] = field(default_factory=dict)
    capabilities: dict[str, Capability] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take one event into account. Events about unknown requests are ignored."""
        self.time = max(self.time, event.time)
        match event:
            case Snapshot():
                self._restore(event)
            case Status():
                self.status, self.progress = event.status, event.progress
                self.error = event.error
                self.model = event.model or self.model
                self.slots = event.slots or self.slots
            case Paused():
                self.paused = event.paused
            case Load():
                self.load, self.slots = event, event.slots or 0
            case Capability():
                self.capabilities[event.feature] = event
            case Speculation():
                self.speculation = event
            case Queued():
                self.requests[event.request] = RequestState(
                    request=event.request,
                    source=event.source,
                    phase=Phase.QUEUED,
                    prompt_tokens=event.prompt_tokens,
                    max_tokens=event.max_tokens,
                    queued=event.time,
                )
            case Step():
                for request, gained in event.tokens.items():
                    self._count(request, gained, event.time)
            case Waiting() | Preempted() | Admitted() | Prefill() | FirstToken() | Finished():
                self._advance(event)

    def snapshot(self, time: float, wall: float) -> Snapshot:
        """The state as the event that restores it."""
        return Snapshot(
            time=time,
            wall=wall,
            status=self.status,
            slots=self.slots,
            queue_limit=self.queue_limit,
            progress=self.progress,
            error=self.error,
            model=self.model,
            requests=tuple(self.requests.values()),
            capabilities=tuple(self.capabilities.values()),
            pid=self.pid,
            paused=self.paused,
            speculation=self.speculation,
        )

    def _restore(self, snapshot: Snapshot) -> None:
        self.time, self.wall = snapshot.time, snapshot.wall
        self.status, self.progress = snapshot.status, snapshot.progress
        self.error, self.model = snapshot.error, snapshot.model
        self.slots, self.queue_limit = snapshot.slots, snapshot.queue_limit
        self.pid, self.paused = snapshot.pid, snapshot.paused
        self.speculation = snapshot.speculation
        self.requests = {r.request: r for r in snapshot.requests}
        self.capabilities = {c.feature: c for c in snapshot.capabilities}

    def _count(self, request: str, gained: int, time: float) -> None:
        state = self.requests.get(request)
        if state is not None:
            self.requests[request] = replace(
                state, tokens=state.tokens + gained, last_token=time, phase=Phase.DECODE
            )

    def _advance(
        self, event: Waiting | Preempted | Admitted | Prefill | FirstToken | Finished
    ) -> None:
        state = self.requests.get(event.request)
        if state is None:
            return
        match event:
            case Waiting():
                state = replace(state, waiting_for=event.why)
            case Preempted():
                state = replace(state, phase=Phase.QUEUED, slot=None, waiting_for=event.why)
            case Admitted():
                first = event.time if state.admitted is None else state.admitted
                state = replace(
                    state,
                    phase=Phase.PREFILL,
                    admitted=first,
                    slot=event.slot,
                    mid_flight=event.mid_flight,
                    cached_tokens=event.cached_tokens,
                    waiting_for="",
                )
            case Prefill():
                state = replace(state, prefilled=event.done)
            case FirstToken():
                state = replace(state, phase=Phase.DECODE, first_token=event.time)
            case Finished():
                state = replace(
                    state,
                    phase=Phase.FINISHED,
                    finished=event.time,
                    reason=event.reason,
                    tokens=event.tokens,
                )
        self.requests[event.request] = state
        if state.phase is Phase.FINISHED:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        finished = [r for r in self.requests.values() if r.phase is Phase.FINISHED]
        for state in finished[:-FINISHED_KEPT]:
            del self.requests[state.request]
