"""The engine: submit, cancel, subscribe, close; one thread that owns every MLX array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.bus import Subscription
from engine.events import Progress, Snapshot
from engine.types import GenerationRequest, Sink

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

Loader = Callable[[Callable[[Progress], None]], "LoadedModel"]
"""Loads the model on the engine thread, reporting progress. Raises with a one-line message."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    max_batch: int = 8
    queue_limit: int = 256


class Engine:
    def __init__(self, loader: Loader, settings: EngineSettings) -> None: ...

    def start(self) -> None:
        """Start the engine thread, which loads the model first; returns at once."""

    @property
    def model(self) -> LoadedModel | None:
        """The loaded model (tokenizer and ModelInfo are safe from any thread), None before."""

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        """Queue a request. Thread-safe, returns at once; exactly one `Finish` will follow.

        Raises QueueFullError, ContextLengthError or EngineUnavailableError before any compute.
        """

    def cancel(self, request_id: str) -> bool:
        """Ask a queued, prefilling or decoding request to end. False if it is not known."""

    def subscribe(self, notify: Callable[[], None]) -> Subscription: ...

    def snapshot(self) -> Snapshot: ...

    def close(self) -> None:
        """End every request with CANCELLED, drop the model on its own thread, join the thread."""
