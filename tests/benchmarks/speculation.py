"""What checking drafts costs by rows and width, and what speculation brings end to end.

One engine loop for each way of decoding, over the same loaded model; they answer the same requests
a few steps each, so what slows the machine slows them alike. Ratios are medians over the rounds,
beside the plain loop in the same round; a second plain loop shows how far they can be trusted.
BENCH_CLOCK=cpu counts this process's processor time, in the engine's own measuring too: where other
programs keep the machine busy, the clock says little.
"""

from __future__ import annotations

import os
from statistics import median
from typing import TYPE_CHECKING

from engine.hardware import blas
from engine.models import catalog
from engine.proof.prompts import Prompts
from engine.types import EngineSettings, Speculate
from tests.benchmarks.player import Player, compete, count_processor_time

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
TOKENS = int(os.environ.get("BENCH_TOKENS", "64"))
ROWS = (1, 4, 8)
WIDTHS = (2, 3, 4, 6, 9)
WAYS = {
    "plain": EngineSettings(),
    "plain again": EngineSettings(),
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
        count_processor_time()
    blas.prepare()
    from engine.models.load import load

    reference = catalog.resolve(None)
    model = load(catalog.ensure(reference), reference.name)
    _print_costs(model)
    print(f"\ntokens per second, {TOKENS} tokens each, greedy; medians of {ROUNDS} rounds\n")
    print("| requests | plain |" + "".join(f" {way} | beside plain |" for way in list(WAYS)[1:]))
    print("|---|---:|" + "---:|---:|" * (len(WAYS) - 1))
    players = {way: Player(model, settings) for way, settings in WAYS.items()}
    found = [
        _row(f"{name}, {rows}", players, asks(model, rows))
        for name, asks in (("chat", chats), ("copying", copies))
        for rows in ROWS
    ]
    auto, again = (min(beside[way] for beside in found) for way in ("auto", "plain again"))
    print(f"\nat worst auto is {auto:.2f}x of plain; plain is {again:.2f}x of itself")


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


def _row(name: str, players: dict[str, Player], prompts: list[tuple[int, ...]]) -> dict[str, float]:
    """Prints it; what each way brings beside plain decoding."""
    rounds = [compete(players, prompts, TOKENS) for _ in range(ROUNDS + 1)]
    del rounds[0]  # it warms up
    rates = {way: median(found[way] for found in rounds) for way in players}
    beside = {way: median(found[way] / found["plain"] for found in rounds) for way in players}
    cells = [f"{rates[way]:.1f} | {beside[way]:.2f}x" for way in list(players)[1:]]
    print(f"| {name} | {rates['plain']:.1f} | {' | '.join(cells)} |", flush=True)
    return beside
