"""Every event the engine emits, as dataclasses with one JSON codec.

The live panel, recordings and the verdict are folds over these. Times are seconds on the engine's
monotonic clock; `Snapshot.wall` anchors that clock to the wall clock. Events never carry prompt or
answer text. On the wire an event is `{"event": <name>, ...fields}`; unknown names and unknown
fields are ignored by `decode`, so an older client can follow a newer engine.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from engine.types import FinishReason


class EngineStatus(StrEnum):
    LOADING = "loading"
    OK = "ok"
    STUCK = "stuck"  # one piece of work does not end; `error` says which and since when
    FAILED = "failed"  # the model could not load, or the engine stopped after repeated failures
    STOPPING = "stopping"


class Phase(StrEnum):
    """Where a request is in its life."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a long start-up. total 0: unknown. unit: "bytes", "tensors" or ""."""

    stage: str  # "fetch", "convert", "load", "warm up"
    detail: str
    done: int = 0
    total: int = 0
    unit: str = ""

    @property
    def percent(self) -> int:
        """Rounded down: 100 only when it is done; 0 while the total is unknown."""
        return 100 * min(self.done, self.total) // max(1, self.total)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The loaded model. context: tokens. kv_bytes_per_token: one row, all layers."""

    id: str
    family: str
    parameters: int
    context: int
    precision: str
    weight_bytes: int
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True)
class RequestState:
    """One request as a snapshot shows it; the same facts its events carried."""

    request: str
    source: str
    phase: Phase
    prompt_tokens: int
    max_tokens: int
    queued: float
    admitted: float | None = None
    slot: int | None = None
    mid_flight: bool = False
    cached_tokens: int = 0
    prefilled: int = 0
    first_token: float | None = None
    last_token: float | None = None
    tokens: int = 0
    finished: float | None = None
    reason: FinishReason | None = None
    waiting_for: str = ""


@dataclass(frozen=True, slots=True)
class Capability:
    """What was asked of an option, what it really does, and why they differ (or why it does).

    refused: it was asked for and is not done.
    """

    name: ClassVar[str] = "capability"
    time: float
    feature: str
    requested: str
    effective: str
    why: str
    refused: bool = False

    def __str__(self) -> str:
        asked = f"asked for {self.requested}, got " if self.refused else ""
        return f"{self.feature}: {asked}{self.effective} ({self.why})"


@dataclass(frozen=True, slots=True)
class Speculation:
    """How drafts fare lately, sent when it changed.

    drafter: who proposes. length: tokens of the longest draft in the latest forward, 0 for none;
    why: the reason, then. acceptance: share of the drafted tokens the target picked too, None
    before any. tokens_per_forward: for each row, 1 without speculation.
    """

    name: ClassVar[str] = "speculation"
    time: float = field(compare=False)
    drafter: str
    length: int = 0
    acceptance: float | None = None
    tokens_per_forward: float = 1.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state. First event of every subscription, and sent again to a slow subscriber."""

    name: ClassVar[str] = "snapshot"
    time: float
    wall: float  # Unix seconds at `time`
    status: EngineStatus
    slots: int
    queue_limit: int
    progress: Progress | None = None
    error: str | None = None
    model: ModelInfo | None = None
    requests: tuple[RequestState, ...] = ()  # queued and running, then the latest finished
    capabilities: tuple[Capability, ...] = ()
    pid: int = 0
    paused: bool = False
    speculation: Speculation | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The engine's status or its start-up progress changed. model, slots: once there is one."""

    name: ClassVar[str] = "status"
    time: float
    status: EngineStatus
    progress: Progress | None = None
    error: str | None = None
    model: ModelInfo | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """Admissions are held from now on, or no longer. What runs goes on either way."""

    name: ClassVar[str] = "paused"
    time: float
    paused: bool


@dataclass(frozen=True, slots=True)
class Load:
    """What a server that publishes no events tells of its load; our own engine never sends this.

    source: where it tells it. slots: how many it has. kv_usage: share of its K/V memory in use.
    None where it doesn't say. The same figures at another time are the same load.
    """

    name: ClassVar[str] = "load"
    time: float = field(compare=False)
    source: str
    slots: int | None = None
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    name: ClassVar[str] = "queued"
    time: float
    request: str
    source: str
    prompt_tokens: int
    max_tokens: int
    position: int  # 1 is next


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request at the head of the queue can't start although a slot is free, and why."""

    name: ClassVar[str] = "waiting"
    time: float
    request: str
    why: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """A running request went back to the head of the queue, and why. tokens: of its answer so far;
    they stand, and are read again when it is admitted again."""

    name: ClassVar[str] = "preempted"
    time: float
    request: str
    why: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Admitted:
    name: ClassVar[str] = "admitted"
    time: float
    request: str
    slot: int  # 0-based, stable for the request's life
    waited: float
    mid_flight: bool  # others were decoding at that moment
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompt tokens read so far. milliseconds: this slice's cost."""

    name: ClassVar[str] = "prefill"
    time: float
    request: str
    done: int
    total: int
    milliseconds: float


@dataclass(frozen=True, slots=True)
class FirstToken:
    name: ClassVar[str] = "first_token"
    time: float
    request: str


@dataclass(frozen=True, slots=True)
class Step:
    """One or more forwards of the running rows, coalesced for subscribers.

    kind: "decode" or "verify". width: rows in the latest forward. tokens: request id -> tokens it
    gained over all `steps` forwards. milliseconds: total over those forwards.
    """

    name: ClassVar[str] = "step"
    time: float
    kind: str
    width: int
    tokens: dict[str, int]
    milliseconds: float
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Finished:
    """reason and counts as in `Finish`; completion_time is seconds since the request was queued."""

    name: ClassVar[str] = "finished"
    time: float
    request: str
    reason: FinishReason
    tokens: int
    completion_time: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Warning:
    name: ClassVar[str] = "warning"
    time: float
    code: str
    message: str
    request: str | None = None


Event = (
    Snapshot
    | Status
    | Paused
    | Load
    | Queued
    | Waiting
    | Preempted
    | Admitted
    | Prefill
    | FirstToken
    | Step
    | Finished
    | Warning
    | Capability
    | Speculation
)

_EVENTS: dict[str, type[Any]] = {cls.name: cls for cls in get_args(Event)}
_HINTS: dict[type[Any], dict[str, Any]] = {}


def encode(event: Event) -> dict[str, Any]:
    """The event as JSON-ready values, its name under "event"."""
    return {"event": event.name, **dataclasses.asdict(event)}


def decode(data: dict[str, Any]) -> Event | None:
    """The event `encode` wrote, or None for a name this version doesn't know."""
    cls = _EVENTS.get(data.get("event", ""))
    return None if cls is None else typing.cast(Event, _build(cls, data))


def _build(cls: type[Any], data: dict[str, Any]) -> Any:
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    hints = _HINTS[cls]
    fields = (f.name for f in dataclasses.fields(cls) if f.name in data)
    return cls(**{name: _value(hints[name], data[name]) for name in fields})


def _value(hint: Any, value: Any) -> Any:
    """`value` as the annotated type: nested dataclasses, enums and tuples are rebuilt."""
    if value is None:
        return None
    origin = get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _value(next(arg for arg in get_args(hint) if arg is not type(None)), value)
    if origin is tuple:
        return tuple(_value(get_args(hint)[0], item) for item in value)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type[Any], hint), value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    return value
