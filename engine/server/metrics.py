"""What Prometheus may read, under vLLM's and llama.cpp's names where they mean the same thing."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from engine.events import Phase, Snapshot
from engine.types import Finish, FinishReason, KvUse

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
"""Upper bounds of the histograms' buckets."""

REASONS = {FinishReason.CANCELLED: "abort"}
"""vLLM's word for an end, where it is not ours."""


class Metrics:
    """Counts tokens as they come and requests as they end; the engine's load is read off its state.
    Any thread."""

    def __init__(self) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self._running = [
            self._gauge("vllm:num_requests_running", "Requests in a slot"),
            self._gauge("llamacpp:requests_processing", "Requests in a slot"),
        ]
        self._waiting = [
            self._gauge("vllm:num_requests_waiting", "Requests in the queue"),
            self._gauge("llamacpp:requests_deferred", "Requests in the queue"),
        ]
        self._kv_share = [
            self._gauge(name, "Share of the K/V memory that running requests take, 1 for all")
            for name in (
                "vllm:kv_cache_usage_perc",
                "vllm:gpu_cache_usage_perc",
                "llamacpp:kv_cache_usage_ratio",
            )
        ]
        self._kv_tokens = self._gauge("llamacpp:kv_cache_tokens", "Tokens of running requests")
        self._prompt = [
            self._counter("vllm:prompt_tokens", "Prompt tokens of ended requests"),
            self._counter("llamacpp:prompt_tokens", "Prompt tokens of ended requests"),
        ]
        self._generated = [
            self._counter("vllm:generation_tokens", "Tokens generated"),
            self._counter("llamacpp:tokens_predicted", "Tokens generated"),
        ]
        self._asked = self._counter("vllm:prefix_cache_queries", "Prompt tokens looked up")
        self._cached = self._counter("vllm:prefix_cache_hits", "Prompt tokens not read again")
        self._reading = self._counter("llamacpp:prompt_seconds", "Time prompts took to read")
        self._writing = self._counter("llamacpp:tokens_predicted_seconds", "Time spent decoding")
        self._ended = Counter(
            "vllm:request_success",
            "Requests that ended",
            ["finished_reason"],
            registry=self._registry,
        )
        self._queued = self._histogram("vllm:request_queue_time_seconds", "Time in the queue")
        self._first = self._histogram("vllm:time_to_first_token_seconds", "Time to first token")
        self._whole = self._histogram("vllm:e2e_request_latency_seconds", "Time to the end")

    def generated(self, tokens: int) -> None:
        """Count tokens of a request that runs."""
        for counter in self._generated:
            counter.inc(tokens)

    def ended(self, finish: Finish, counted: int = 0) -> None:
        """Count a request. counted: how many of its tokens were already."""
        usage, times = finish.usage, finish.timings
        for counter in self._prompt:
            counter.inc(usage.prompt_tokens)
        self.generated(max(usage.completion_tokens - counted, 0))
        self._asked.inc(usage.prompt_tokens)
        self._cached.inc(usage.cached_tokens)
        self._ended.labels(REASONS.get(finish.reason, str(finish.reason))).inc()
        self._whole.observe(times.finished)
        if times.admitted is not None:
            self._queued.observe(times.admitted)
        if times.admitted is not None and times.first_token is not None:
            self._first.observe(times.first_token)
            self._reading.inc(max(times.first_token - times.admitted, 0.0))
            self._writing.inc(max(times.finished - times.first_token, 0.0))

    def text(self, state: Snapshot, kv: KvUse) -> bytes:
        """Everything, in Prometheus' text format."""
        phases = [request.phase for request in state.requests]
        for gauge in self._running:
            gauge.set(sum(phase in (Phase.PREFILL, Phase.DECODE) for phase in phases))
        for gauge in self._waiting:
            gauge.set(phases.count(Phase.QUEUED))
        for gauge in self._kv_share:
            gauge.set(kv.share)
        self._kv_tokens.set(kv.tokens)
        return generate_latest(self._registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self._registry)

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(name, meaning, registry=self._registry)

    def _histogram(self, name: str, meaning: str) -> Histogram:
        return Histogram(name, meaning, buckets=SECONDS, registry=self._registry)
