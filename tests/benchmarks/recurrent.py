"""Rejected drafts in recurrent states: read the accepted tokens again at once, or with the next.

A recurrent state can't drop a part of what it read. The row goes back to before its draft, and the
tokens that count are read once more: in a forward of their own ("replayed"), or as the beginning of
the next one ("folded", which is what the engine does). Random hybrid models; the drafts are the
answers themselves, each token wrong now and then. By processor time, all ways a few steps each.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from engine.hardware import blas
from engine.types import EngineSettings
from tests.benchmarks.player import Player, compete, count_processor_time

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
TOKENS = int(os.environ.get("BENCH_TOKENS", "48"))
DRAFT = 4
SHAPES: dict[str, dict[str, Any]] = {
    "lfm2": {
        "num_hidden_layers": 9,
        "layer_types": ["conv", "full_attention", "conv"] * 3,
        "hidden_size": 512,
        "head_dim": 128,
        "block_auto_adjust_ff_dim": False,
        "block_dim": 512,
        "block_ff_dim": 1536,
    },
    "qwen3_next": {
        "num_hidden_layers": 6,
        "full_attention_interval": 3,
        "hidden_size": 512,
        "head_dim": 128,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
    },
}
"""Families and what makes them larger: some 30 million weights."""


def main() -> None:
    count_processor_time()
    blas.prepare()
    from engine.models.load import load
    from tests.tiny_families import tiny_family

    print(f"drafts of {DRAFT}, {TOKENS} tokens each, greedy; medians of {ROUNDS} rounds\n")
    print("| model | rows | drafts right | plain, tokens/s | replayed | folded | fold ÷ replay |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for family, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = load(tiny_family(Path(folder), family, **shape), family)
        for rows in (1, 8):
            for right in (0.3, 0.8):
                _row(model, rows, right)


def _row(model: LoadedModel, rows: int, right: float) -> None:
    prompts = [range(5 + row, 25 + row) for row in range(rows)]
    plain = Player(model, EngineSettings())
    compete({"plain": plain}, prompts, TOKENS)
    answers = {row.request.id: row.tokens for row in plain.rows}
    players = {"plain": plain, **_drafting(model, answers, right)}
    rounds = [compete(players, prompts, TOKENS) for _ in range(ROUNDS + 1)]
    del rounds[0]  # it warms up
    for player in players.values():
        assert {row.request.id: row.tokens for row in player.rows} == answers
    rate = median(rates["plain"] for rates in rounds)
    replayed, folded = (
        median(rates[way] / rates["plain"] for rates in rounds) for way in ("replayed", "folded")
    )
    fold = median(rates["folded"] / rates["replayed"] for rates in rounds)
    print(
        f"| {model.info.id} | {rows} | {right:.0%} | {rate:.1f} | {replayed:.2f}x | {folded:.2f}x "
        f"| {fold:.2f} |",
        flush=True,
    )


def _drafting(model: LoadedModel, answers: dict[str, list[int]], right: float) -> dict[str, Player]:
    import engine.loop
    from engine.batch import Batch
    from engine.drafters.select import Selected
    from engine.models.capabilities import Feature, stated
    from tests.benchmarks.replay import NoisyOracle, Replaying

    players = {}
    for way, batch in (("replayed", Replaying), ("folded", Batch)):
        drafter = NoisyOracle(answers, right, DRAFT)
        selected = Selected(drafter, stated(Feature.SPECULATION, "", drafter.name, ""))
        with (
            patch.object(engine.loop, "select", lambda *_, selected=selected: selected),
            patch.object(engine.loop, "Batch", batch),
        ):
            players[way] = Player(model, EngineSettings(max_draft=DRAFT))
    return players
