"""What a server that publishes no events reveals of its load, where its makers document it.

llama.cpp's server lists its slots at /slots and, started with --metrics, counts waiting requests at
/metrics; vLLM and SGLang (with --enable-metrics) tell how many run and wait and how full their K/V
memory is at /metrics. mlx_lm.server, LM Studio and Ollama tell nothing of the kind.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dspark_tui.batch.live import VIEW
from engine.events import Capability, EngineStatus, Load, ModelInfo, Snapshot
from engine.state import EngineState

if TYPE_CHECKING:
    from dspark_tui.engines.client import EngineClient


class Gauges(Struct, frozen=True):
    """The names under which one kind of server publishes its load; the first that is there."""

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv_usage: tuple[str, ...] = ()


GAUGES = (
    Gauges(
        ("vllm:num_requests_running",),
        ("vllm:num_requests_waiting",),
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    ),
    Gauges(("sglang:num_running_reqs",), ("sglang:num_queue_reqs",), ("sglang:token_usage",)),
    Gauges(("llamacpp:requests_processing",), ("llamacpp:requests_deferred",)),
)
FIRST_OF_ITS_GROUP = {"tp_rank": "0", "pp_rank": "0"}
"""Ranks that share one model publish the same requests each; those of other ranks are left out."""


def seen_from_outside(engine: EngineState, model: str, where: str) -> Snapshot:
    """What is known of such a server as an engine's state; what isn't is said as a capability."""
    now = time.monotonic()
    why = f"{where} publishes no events: queue and prompt reading look the same"
    return replace(
        engine.snapshot(now, time.time()),
        status=EngineStatus.OK,
        progress=None,
        error=None,
        model=ModelInfo(model, "", 0, 0, "", 0, 0),
        capabilities=(Capability(now, VIEW, "the batch", "our own requests", why),),
    )


async def look(client: EngineClient, now: float) -> Load | None:
    """What the server reveals at engine time `now`, None if nothing. Raises ClientError."""
    slots = slots_load(await client.look_up("/slots") or "", now)
    metrics = metrics_load(await client.look_up("/metrics") or "", now)
    if slots is None or metrics is None:
        return slots or metrics
    return replace(slots, source=f"{slots.source} {metrics.source}", waiting=metrics.waiting)


def slots_load(text: str, now: float) -> Load | None:
    """From llama.cpp's /slots: a list with an object for each slot."""
    try:
        slots: Any = json.loads(text)
        busy = [bool(slot["is_processing"]) for slot in slots]
    except (ValueError, LookupError, TypeError):
        return None
    return Load(now, "/slots", slots=len(busy), running=sum(busy)) if busy else None


def metrics_load(text: str, now: float) -> Load | None:
    """From Prometheus text, in the names of any of the servers we know."""
    samples = _samples(text)
    for gauges in GAUGES:
        running, waiting = _values(samples, gauges.running), _values(samples, gauges.waiting)
        if running or waiting:
            usage = _values(samples, gauges.kv_usage)
            return Load(
                now,
                "/metrics",
                running=_total(running),
                waiting=_total(waiting),
                kv_usage=max(usage, default=None),
            )
    return None


def _samples(text: str) -> dict[str, list[float]]:
    """The values of each name, one for each set of labels."""
    from prometheus_client.parser import text_string_to_metric_families

    values: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                first = all(sample.labels.get(k, v) == v for k, v in FIRST_OF_ITS_GROUP.items())
                if first and math.isfinite(sample.value):
                    values.setdefault(sample.name, []).append(sample.value)
    except ValueError:
        return {}
    return values


def _values(samples: dict[str, list[float]], names: Iterable[str]) -> list[float]:
    return next((samples[name] for name in names if name in samples), [])


def _total(values: list[float]) -> int | None:
    return round(sum(values)) if values else None
