"""The engine of rank 0: as any other, and when a rank is lost it answers at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.distributed.division import choose, of_layers
from engine.distributed.hosts import Hosts
from engine.distributed.messages import Job, Joining, Loaded
from engine.distributed.ranks import Ranks
from engine.distributed.versions import digest
from engine.engine import Engine, Report
from engine.events import EngineStatus, Finished, Progress
from engine.models import catalog
from engine.types import (
    Delta,
    EngineError,
    EngineSettings,
    EngineUnavailableError,
    Finish,
    FinishReason,
    GenerationRequest,
    Sink,
    Timings,
    Update,
    Usage,
)

if TYPE_CHECKING:
    import mlx.core as mx
    import mlx.nn as nn

    from engine.distributed.group import Share
    from engine.loop import Loop
    from engine.models.load import LoadedModel


class ShardLoader:
    """Fetches the model, starts the ranks once it is known that they can share it, and loads rank
    0's share."""

    def __init__(
        self,
        ref: catalog.ModelRef,
        precision: str,
        kv_bits: int | None,
        ranks: Ranks,
        pipeline: bool,
    ) -> None:
        self._ref = ref
        self._precision = precision
        self._kv_bits = kv_bits
        self._ranks = ranks
        self._pipeline = pipeline
        self._report: Report = lambda _: None
        self._digest = ""
        self._share: Share | None = None

    @property
    def ranks(self) -> int:
        return len(self._ranks.hosts)

    @property
    def memories(self) -> int:
        return self._ranks.hosts.memories

    def __call__(self, report: Report) -> LoadedModel:
        from engine.distributed.group import require
        from engine.models.load import load

        os.environ |= self._ranks.hosts.environment
        require(self._ranks.hosts.backend)  # before a model is fetched
        self._report = report
        folder = catalog.ensure(self._ref, report)
        self._digest = digest(folder)
        loaded = load(folder, self._ref.name, self._precision, report, self._kv_bits, self)
        return replace(loaded, capabilities=(*loaded.capabilities, self._ranks.capability()))

    def apply(self, model: nn.Module, config: dict[str, Any], precision: str) -> None:
        """Check, start the ranks, tell them what to load, and keep rank 0's share."""
        from engine.distributed import group

        division = choose(model, config, self.ranks, self._pipeline)
        self._ranks.division = division
        ports = self._ranks.gather(self._connected)
        environment, files = group.rendezvous(self._ranks.hosts, ports)
        named = self._ref.kind is not catalog.Kind.EMBEDDED
        job = Job(
            ranks=self.ranks,
            memories=self.memories,
            division=division,
            model=str(self._ref.path or self._ref.name) if named else None,
            digest=self._digest,
            precision=precision,
            kv_bits=self._kv_bits,
            backend=self._ranks.hosts.backend,
            environment=self._ranks.hosts.environment | environment,
            files=files,
        )
        self._ranks.send(job)
        self._share = group.Share(0, job, lambda: self._ranks.replies(Joining))
        self._share.apply(model, config, precision)

    def agreed(self, tokens: mx.array) -> mx.array:
        assert self._share is not None
        return self._share.agreed(tokens)

    @property
    def layers(self) -> list[int]:
        """See `Share`."""
        assert self._share is not None
        return self._share.layers

    def _connected(self, count: int) -> None:
        self._report(Progress("connect", self._ranks.hosts.backend, count, self.ranks, "ranks"))


@dataclass(slots=True)
class OpenRequest:
    """A request that was not ended yet. tokens: sent so far."""

    request: GenerationRequest
    sink: Sink
    queued: float
    tokens: int = 0


class DistributedEngine(Engine):
    """Its loop is rank 0's. The loop's thread may wait for ever in a step that a lost rank takes no
    part in, so then this object ends all requests, from whichever thread noticed.

    pipeline: wanted even where tensor parallel is possible. on_loss: hears the line that names the
    rank.
    """

    def __init__(
        self,
        ref: catalog.ModelRef,
        precision: str,
        kv_bits: int | None,
        settings: EngineSettings,
        hosts: Hosts,
        pipeline: bool,
        on_loss: Callable[[str], None],
    ) -> None:
        self._ranks = Ranks(hosts, self._lose)
        self._shards = ShardLoader(ref, precision, kv_bits, self._ranks, pipeline)
        super().__init__(self._shards, settings)
        self._on_loss = on_loss
        self._open: dict[str, OpenRequest] = {}
        self._ending = threading.Lock()

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        opened = OpenRequest(request, sink, self._clock.now())
        with self._ending:  # none may come in between the end of the others and the news of it
            if self._ranks.lost is not None:
                raise EngineUnavailableError(self._ranks.lost)
            self._open[request.id] = opened
            try:
                super().submit(request, partial(self._pass, opened))
            except EngineError:
                del self._open[request.id]
                raise

    def close(self) -> None:
        self._ranks.release()
        super().close()
        self._ranks.close()

    def _new_loop(self, loaded: LoadedModel) -> Loop:
        from engine.distributed.loops import LeadingLoop

        settings = self._settings_of_a_layer()
        self._ranks.begin(settings)
        settings = of_layers(settings, self._shards.layers[0])
        return LeadingLoop(loaded, settings, self._bus, self._forget, self._ranks)

    def _settings_of_a_layer(self) -> EngineSettings:
        """For the loops, with what a layer may take of memory on every rank."""
        from engine.hardware import device
        from engine.memory import KEPT_SHARE

        asked, layers = self._settings, self._shards.layers
        hosts = self._ranks.hosts
        free = [device.free_bytes(), *(r.free_bytes for r in self._ranks.replies(Loaded))]
        budgets = [
            asked.kv_budget or size // 2 // hosts.beside(host)
            for host, size in zip(hosts.ranks, free, strict=True)
        ]
        budget = min(size // count for size, count in zip(budgets, layers, strict=True))
        kept = asked.prefix_cache
        return replace(
            asked,
            kv_budget=budget // KEPT_SHARE * KEPT_SHARE,  # so that a loop's shares have no rest
            prefix_cache=None if kept is None else kept // max(layers),
        )

    def _announce(self, status: EngineStatus, error: str | None = None) -> None:
        if self._ranks.lost is not None and status is EngineStatus.OK:
            status, error = EngineStatus.FAILED, self._ranks.lost
        super()._announce(status, error)

    def _pass(self, opened: OpenRequest, update: Update) -> None:
        """Whoever takes a request off the open ones ends it: the loop, or the loss of a rank."""
        request = opened.request.id
        if isinstance(update, Finish):
            if self._open.pop(request, None) is None:
                return
        elif request not in self._open:
            return
        elif isinstance(update, Delta):
            opened.tokens += update.tokens
        opened.sink(update)

    def _lose(self, error: str) -> None:
        """A rank is gone. Any thread but the engine's, which may be waiting for that rank."""
        with self._ending:
            serving = self._loop is not None
            if self._loop is not None:
                self._loop.failed = True
            self._announce(EngineStatus.FAILED, error=error)
            self._bus.publish(self._ranks.capability())
            for request in list(self._open):
                if opened := self._open.pop(request, None):
                    self._end(opened, error)
        if serving:  # who starts an engine reports why it did not start
            self._on_loss(error)

    def _end(self, opened: OpenRequest, error: str) -> None:
        now = self._clock.now()
        request, taken = opened.request, now - opened.queued
        usage = Usage(len(request.prompt), opened.tokens)
        self._forget(request.id)
        self._bus.publish(
            Finished(now, request.id, FinishReason.ERROR, opened.tokens, taken, error)
        )
        opened.sink(Finish(FinishReason.ERROR, usage, Timings(None, None, taken), error))
