"""How close decoding comes to what this machine allows: its bytes, its limits, a stopwatch.

An engine is started as for serving, in this process. Its loader also measures the machine, so that
everything that touches MLX happens on the engine's own thread. Prepare the BLAS before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from queue import SimpleQueue
from statistics import median
from typing import TYPE_CHECKING, Any

from engine.engine import Engine, Loader
from engine.events import EngineStatus, Event, Finished, ModelInfo, Progress, Step
from engine.hardware.roofline import Measured, Roofline
from engine.types import EngineSettings, FinishReason, GenerationRequest

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

VERSION = 1

STEPS = 64
"""Steps a sample takes, fewer where they would take longer than SECONDS."""
SECONDS = 5.0
FEWEST_STEPS = 8

TEXT = 16
"""Tokens of each text whose routing is looked at."""

PROMPT = "The lighthouse keeper wrote down everything the sea had brought that year:"
SAMPLE = (
    f"{PROMPT} eleven bottles, two of them full, a door without a house, and a box of oranges that "
    "smelled of salt. In April the supply boat came late. He had counted nine ships on the horizon "
    "and could name seven by their smoke; the others he drew in the margin, with a question beside "
    "each. 'Wind from the west,' says the entry for Sunday, 'and 14 degrees; repaired the pump.' "
    "Nobody asked him for these notes, yet when the light was made automatic they were the first "
    "thing the museum wanted, because they recorded what no instrument had been built to measure."
)
REMARKABLE = 0.75
"""The share of a ceiling from which on little is left to win below it."""
IMPOSSIBLE = 1.1
"""More than this share of a ceiling can't be; up to it, it is the measurements' noise."""

Report = Callable[[Progress], None]


class AuditError(Exception):
    """The model can't be loaded or doesn't decode. `str()` is one line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Decoding at one batch width. steps: how many were timed; context: tokens each row held in
    the middle of them; result: its median step beside the ceiling."""

    steps: int
    context: int
    result: Measured


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found. samples: by rising number of rows, one row first, as far as they fit."""

    model: ModelInfo
    facts: tuple[str, ...]
    roofline: Roofline
    samples: tuple[Sample, ...]

    def conclusion(self) -> str:
        """Whether anything is left to win, and where, in one sentence."""
        first, last = self.samples[0].result, self.samples[-1].result
        ceiling = last.ceiling
        rows = "1 row" if ceiling.rows == 1 else f"{ceiling.rows} rows"
        reached = f"at {rows} decoding reaches {last.utilisation:.0%} of what this machine allows"
        if last.utilisation > IMPOSSIBLE:
            return (
                f"The machine was busy while its limits were measured: {reached}; repeat the "
                "audit when it is quiet."
            )
        climb = f"; {_climb(first, last)}" if ceiling.rows > 1 else ""
        if last.utilisation >= REMARKABLE:
            remedy = {
                "memory": "only fewer bytes a token would make it faster (a lower precision, a "
                "smaller model, accepted drafts)",
                "arithmetic": "only more arithmetic would make it faster (more BLAS threads, a "
                "better processor)",
            }[ceiling.limit]
            return f"Little is left to win: {reached}{climb}, and {remedy}."
        spent, least = last.seconds * 1000, ceiling.seconds * 1000
        return (
            f"There is something to win: {reached}{climb}; {spent - least:.1f} of a step's "
            f"{spent:.1f} ms are more than {ceiling.limit} needs, so look at small operations, "
            "the packing of weights and what Python does between steps."
        )

    def document(self) -> dict[str, Any]:
        """The whole audit as JSON-ready values; `version` changes when their meaning does."""
        roofline = self.roofline
        return {
            "version": VERSION,
            "model": asdict(self.model),
            "facts": list(self.facts),
            "tensors": [asdict(tensor) for tensor in roofline.tensors],
            "kv_bytes_per_token": roofline.kv_bytes_per_token,
            "weights_per_token": roofline.weights_per_token,
            "expert_shares": dict(roofline.expert_shares),
            "machine": asdict(roofline.machine),
            "samples": [_sample_document(sample) for sample in self.samples],
            "conclusion": self.conclusion(),
        }


def _climb(alone: Measured, together: Measured) -> str:
    """What a batch gains, beside what it would if both reached the same share of their ceilings."""
    gain = f"{together.rate / alone.rate:.1f}x"
    limits = f"{together.ceiling.rate / alone.ceiling.rate:.1f}x"
    if together.utilisation <= alone.utilisation:
        return f"batching gains {gain} of {limits} possible"
    return (
        f"batching gains {gain}, where the limits are {limits} apart, as one row alone reached "
        f"only {alone.utilisation:.0%} of its own: what a step costs besides is shared, or the "
        "machine was busy then"
    )


def _sample_document(sample: Sample) -> dict[str, Any]:
    result, ceiling = sample.result, sample.result.ceiling
    return {
        "rows": ceiling.rows,
        "context": sample.context,
        "steps": sample.steps,
        "bytes_per_step": ceiling.bytes,
        "bytes_per_token": ceiling.bytes / ceiling.rows,
        "ceiling_tokens_per_second": ceiling.rate,
        "limit": ceiling.limit,
        "measured_tokens_per_second": result.rate,
        "measured_bytes_per_second": result.bandwidth,
        "utilisation": result.utilisation,
    }


def audit(load: Loader, max_batch: int, report: Report) -> Audit:
    """Load, measure and decode at 1, 2, 4, … `max_batch` rows. Blocks; interrupt it with ^C.

    Raises AuditError.
    """
    found: list[Roofline] = []

    def examine(tell: Report) -> LoadedModel:
        def both(progress: Progress) -> None:
            tell(progress)  # raises once the engine is closing
            report(progress)

        loaded = load(both)
        found.append(_examine(loaded, max_batch, both))
        return loaded

    with _running(Engine(examine, EngineSettings(max_batch))) as engine:
        assert engine.model is not None
        model, samples = engine.model, []
        for done, rows in enumerate(wanted := widths(max_batch)):
            report(Progress("decode", f"{rows} row{'s' * (rows > 1)}", done, len(wanted)))
            sample = _sample(engine, found[0], rows)
            if sample is None:
                break
            samples.append(sample)
        if not samples:
            raise AuditError("the model never decoded; is its context too short?")
        facts = tuple(f"{c.feature} {c.effective} ({c.why})" for c in model.capabilities)
        return Audit(model.info, facts, found[0], tuple(samples))


def widths(max_batch: int) -> list[int]:
    """1, 2, 4, … up to and with `max_batch`."""
    doubled = [1 << power for power in range(max_batch.bit_length())]
    return sorted({*doubled, max_batch})


def _examine(loaded: LoadedModel, max_batch: int, report: Report) -> Roofline:
    """On the engine's thread."""
    from engine.hardware import bandwidth, device
    from engine.models.routing import expert_shares
    from engine.models.weights import compute_dtype, tensors

    def tell(done: int, total: int) -> None:
        report(Progress("measure", "memory and arithmetic", done, total))

    spare = device.free_bytes() // 2
    dtype = compute_dtype(loaded.model)
    machine = bandwidth.measure(loaded.info.weight_bytes, spare, dtype, tell)
    found = tensors(loaded.model, loaded.config)
    texts = _texts(loaded, max_batch)
    rows = [rows for rows in widths(max_batch) if rows <= len(texts)]
    shares = expert_shares(loaded.model, texts, rows)
    return Roofline(tuple(found), loaded.info.kv_bytes_per_token, machine, shares)


def _texts(loaded: LoadedModel, count: int) -> list[list[int]]:
    """Texts of equal length for the routing to be seen at work, fewer where they would repeat."""
    tokens = loaded.tokenizer.encode(SAMPLE)
    starts = range(min(count, len(tokens) - TEXT))
    return [tokens[start : start + TEXT] for start in starts]


@contextmanager
def _running(engine: Engine) -> Iterator[Engine]:
    """The engine once it has loaded, closed at the end. Raises AuditError if it can't load."""
    changed = threading.Event()
    subscription = engine.subscribe(changed.set)
    engine.start()
    try:
        while (state := engine.snapshot()).status is EngineStatus.LOADING:
            changed.wait()
            changed.clear()
        subscription.close()
        if state.status is not EngineStatus.OK:
            raise AuditError(state.error or f"the engine is {state.status}")
        yield engine
    finally:
        engine.close()


def _sample(engine: Engine, roofline: Roofline, rows: int) -> Sample | None:
    """Decode `rows` equal requests together and time their steps.

    None if they never share one, as when memory for their keys and values is short. Raises
    AuditError.
    """
    events: SimpleQueue[Event] = SimpleQueue()

    def forward() -> None:
        for event in subscription.drain():
            events.put(event)

    subscription = engine.subscribe(forward)
    forward()
    requests = _requests(engine, rows)
    try:
        engine.pause(True)  # none is to be over before the last is there
        for request in requests:
            engine.submit(request, lambda _: None)
        engine.pause(False)
        times = _step_times(engine, events, requests)
    finally:
        subscription.close()
    if len(times) < 2:
        return None
    steps = len(times) - 1
    context = len(requests[0].prompt) + steps // 2
    seconds = median(after - before for before, after in pairwise(times))
    ceiling = roofline.ceiling(rows, context)
    return Sample(steps, context, Measured(ceiling, rows / seconds))


def _requests(engine: Engine, rows: int) -> list[GenerationRequest]:
    """Different prompts of the same length, so that no prefix is shared and rows join together."""
    assert engine.model is not None
    start = engine.model.tokenizer.encode(PROMPT)[: max(1, engine.longest_row // 4)]
    tokens = max(1, min(2 * STEPS, engine.longest_row - len(start) - 1))
    return [
        GenerationRequest(
            f"audit-{rows}-{row}", (*start, start[row % len(start)]), tokens, min_tokens=tokens
        )
        for row in range(rows)
    ]


def _step_times(
    engine: Engine, events: SimpleQueue[Event], requests: list[GenerationRequest]
) -> list[float]:
    """When each step that all requests shared was done; then the requests are ended."""
    running = {request.id for request in requests}
    times: list[float] = []
    enough = False
    while running:
        event = events.get()
        match event:
            case Step() if event.width == len(requests) and not enough:
                times.append(event.time)
                enough = len(times) > STEPS or (
                    len(times) > FEWEST_STEPS and times[-1] - times[0] > SECONDS
                )
                if enough:
                    for request in requests:
                        engine.cancel(request.id)
            case Finished():
                running.discard(event.request)
                if event.reason is FinishReason.ERROR:
                    raise AuditError(event.error or "the engine failed")
    return times
