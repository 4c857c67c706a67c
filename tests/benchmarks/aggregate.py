"""Aggregate tokens per second at N = 1, 2, 4, 8, and the ratios that matter.

Each round starts every server anew and gives it the same requests; figures are medians over the
rounds. mlx_lm.server as it comes runs in one round only: at N=8 it takes minutes.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from statistics import median

from tests.benchmarks.servers import (
    Server,
    embedded,
    embedded_fp32,
    mlx_lm_as_it_comes,
    mlx_lm_same_blas,
    ours,
    running,
)
from tests.benchmarks.traffic import aggregate, seconds, together

WIDTHS = (1, 2, 4, 8)
TOKENS = int(os.environ.get("BENCH_TOKENS", "96"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


def main() -> None:
    own = ours(embedded())
    stock = mlx_lm_as_it_comes(embedded())
    same_blas = mlx_lm_same_blas(embedded_fp32())
    figures: dict[tuple[str, int], list[float]] = defaultdict(list)
    for round_ in range(ROUNDS):
        for server in (own, same_blas, stock):
            if server.repeats or round_ == 0:
                _measure(server, figures)
    rates = {key: median(values) for key, values in figures.items()}
    print(f"{TOKENS} tokens each, greedy, fp32 unless said otherwise; median of {ROUNDS} rounds")
    print(f"{'tokens/s':34}" + "".join(f"{f'N={n}':>8}" for n in WIDTHS) + "   N=8 ÷ N=1")
    for server in (own, same_blas, stock):
        row = [rates[server.name, n] for n in WIDTHS]
        print(
            f"{server.name:34}" + "".join(f"{r:8.1f}" for r in row) + f"   {row[-1] / row[0]:.2f}×"
        )
    widest = rates[own.name, 8]
    print(f"ours ÷ {stock.name} at N=8: {widest / rates[stock.name, 8]:.1f}×")
    print(f"ours ÷ {same_blas.name} at N=8: {widest / rates[same_blas.name, 8]:.2f}×")


def _measure(server: Server, figures: dict[tuple[str, int], list[float]]) -> None:
    with running(server) as url:
        asyncio.run(together(url, server.model, 1, 8))  # a warm-up that counts for nothing
        for width in WIDTHS:
            runs = asyncio.run(together(url, server.model, width, TOKENS))
            short = [run for run in runs if run.tokens < TOKENS]
            note = f"  ({len(short)} ended early)" if short else ""
            rate = aggregate(runs)
            figures[server.name, width].append(rate)
            ends = " ".join(f"{seconds(run):.1f}" for run in runs)
            print(
                f"  {server.name} N={width}: {rate:.1f} tok/s, ends at {ends} s{note}", flush=True
            )
