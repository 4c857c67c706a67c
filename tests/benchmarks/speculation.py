"""What checking drafts costs by rows and width, and what speculation brings end to end.

One engine loop for each way of decoding, over the same loaded model; they take turns on the same
requests, so what slows the machine slows them alike. Ratios are medians over the turns, beside the
plain loop's run of the same turn. BENCH_CLOCK=cpu counts this process's processor time, in the
engine's own measuring too: where other programs keep the machine busy, the clock says little.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING

from engine.bus import Clock, EventBus
from engine.hardware import blas
from engine.models import catalog
from engine.proof.prompts import Prompts
from engine.types import EngineSettings, GenerationRequest, Speculate

if TYPE_CHECKING:
    from engine.models.load import LoadedModel
    from engine.row import Row

TURNS = int(os.environ.get("BENCH_TURNS", "3"))
TOKENS = int(os.environ.get("BENCH_TOKENS", "96"))
WIDTHS = (2, 3, 4, 6, 9)
WAYS = {
    "plain": EngineSettings(),
    "ngram, 8 always": EngineSettings(speculate=Speculate.NGRAM, max_draft=8),
    "auto": EngineSettings(speculate=Speculate.AUTO),
}
TEXT = (
    "The old lighthouse stands on the northern cliff. Every evening the keeper climbs its ninety "
    "steps, lights the lamp and writes the weather into a large book. In winter the wind shakes "
    "the windows and the sea throws foam as high as the door. In summer visitors come with "
    "baskets and ask how far the light can be seen. The keeper always answers that nobody has "
    "ever come back to tell."
)
EDIT = f"Copy this text, but write tower instead of lighthouse:\n\n{TEXT}"


def main() -> None:
    if os.environ.get("BENCH_CLOCK") == "cpu":
        time.monotonic = time.perf_counter = time.process_time
    blas.prepare()
    from engine.models.load import load

    reference = catalog.resolve(None)
    model = load(catalog.ensure(reference), reference.name)
    _print_costs(model)
    print(f"\ntokens per second, {TOKENS} tokens each, greedy; medians of {TURNS} turns\n")
    print("| requests | plain |" + "".join(f" {way} | beside plain |" for way in list(WAYS)[1:]))
    print("|---|---:|" + "---:|---:|" * (len(WAYS) - 1))
    players = {way: Player(model, settings) for way, settings in WAYS.items()}
    for name, asks in (("chat", chats), ("copying", copies)):
        for rows in (1, 8):
            _row(f"{name}, {rows}", players, asks(model, rows))


def _print_costs(model: LoadedModel) -> None:
    from engine.cache import plan_for
    from engine.drafters.measure import measure

    print("what a forward costs that checks drafts, in plain forwards of as many rows\n")
    costs = measure(plan_for(model.model, model.kv_bits), slots=8).costs
    print("| rows | plain |" + "".join(f" {width} wide |" for width in WIDTHS))
    print("|---:|---:|" + "---:|" * len(WIDTHS))
    for rows, plain in costs.plain.items():
        cells = "".join(f" {costs.ratio(rows, width):.2f}x |" for width in WIDTHS)
        print(f"| {rows} | {plain:.0f} ms |{cells}")


def chats(model: LoadedModel, rows: int) -> list[tuple[int, ...]]:
    prompts = Prompts()
    return [_ask(model, prompts.short()) for _ in range(rows)]


def copies(model: LoadedModel, rows: int) -> list[tuple[int, ...]]:
    return [_ask(model, f"{EDIT} It was written in {1900 + row}.") for row in range(rows)]


def _ask(model: LoadedModel, text: str) -> tuple[int, ...]:
    return tuple(model.tokenizer.chat([{"role": "user", "content": text}]))


class Player:
    """A loop of its own that answers prompts all at once."""

    def __init__(self, model: LoadedModel, settings: EngineSettings) -> None:
        from engine.loop import Loop

        self._bus = EventBus(Clock(), settings.max_batch, settings.queue_limit)
        self._loop = Loop(model, settings, self._bus, self._bus.clock, lambda _: None)
        self._count = 0

    def rate(self, prompts: list[tuple[int, ...]]) -> float:
        """Tokens per second while all rows decode and until the last ends."""
        rows = [self._enqueue(prompt) for prompt in prompts]
        while any(row.first_token is None for row in rows):
            self._loop.turn()
        began, before = time.perf_counter(), sum(len(row.tokens) for row in rows)
        while not self._loop.idle:
            self._loop.turn()
        return (sum(len(row.tokens) for row in rows) - before) / (time.perf_counter() - began)

    def _enqueue(self, prompt: tuple[int, ...]) -> Row:
        self._count += 1
        request = GenerationRequest(f"r{self._count}", prompt, TOKENS)
        return self._loop.enqueue(request, lambda _: None, self._bus.clock.now())


def _row(name: str, players: dict[str, Player], prompts: list[tuple[int, ...]]) -> None:
    rates: dict[str, list[float]] = {way: [] for way in players}
    for turn in range(TURNS + 1):
        for way, player in players.items():
            rate = player.rate(prompts)
            if turn:  # the first one warms up
                rates[way].append(rate)
    cells = [f"{median(rates['plain']):.1f}"]
    for way in list(players)[1:]:
        beside = [mine / plain for mine, plain in zip(rates[way], rates["plain"], strict=True)]
        cells += [f"{median(rates[way]):.1f}", f"{median(beside):.2f}x"]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
