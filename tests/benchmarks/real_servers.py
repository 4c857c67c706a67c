"""`dspark-tui bench` on real servers, one after the other; the table is the README's.

Ours, mlx_lm.server with our BLAS, llama.cpp's server where it can be built, mlx_lm.server as it
comes, and the same with a seed in every request. Make it smaller with BENCH_N, BENCH_TOKENS,
BENCH_ROUNDS, BENCH_PROBES, and BENCH_SERVERS (words from their names).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.proof.probes import Kind
from engine.proof.report import Report
from tests.benchmarks.llama_cpp import NotBuiltError, llama_cpp
from tests.benchmarks.servers import (
    Server,
    embedded,
    embedded_fp32,
    mlx_lm_as_it_comes,
    mlx_lm_same_blas,
    ours,
    running,
)

WIDTHS = os.environ.get("BENCH_N", "1,2,4,8")
TOKENS = os.environ.get("BENCH_TOKENS", "128")
ROUNDS = os.environ.get("BENCH_ROUNDS", "3")
WANTED = os.environ.get("BENCH_SERVERS", "")
PROBES = os.environ.get("BENCH_PROBES", "staggered,mixed,join,release")


@dataclass(frozen=True)
class Contestant:
    """server: called only when its turn comes, for it may have to be built. options: more words for
    the bench."""

    name: str
    weights: str
    server: Callable[[], Server]
    options: tuple[str, ...] = ()


CONTESTANTS = (
    Contestant("dspark-tui", "fp32", lambda: ours(embedded())),
    Contestant("mlx_lm.server + our BLAS", "fp32", lambda: mlx_lm_same_blas(embedded_fp32())),
    Contestant("llama.cpp server, 8 slots", "fp32", lambda: llama_cpp(8)),
    Contestant("llama.cpp server, 2 slots", "fp32", lambda: llama_cpp(2)),
    Contestant("mlx_lm.server", "4-bit", lambda: mlx_lm_as_it_comes(embedded())),
    Contestant(
        "mlx_lm.server, seeded", "4-bit", lambda: mlx_lm_as_it_comes(embedded()), ("--seed", "1")
    ),
)


def main() -> None:
    widths: list[int] = []
    for contestant in CONTESTANTS:
        if not all(word in contestant.name for word in WANTED.split()):
            continue
        try:
            report = _examined(contestant)
        except NotBuiltError as error:
            print(f"{contestant.name}: not run, {error}", flush=True)
            continue
        if not widths:
            widths = [width.n for width in report.widths]
            print(f"{report.machine}; {report.command}\n")
            print("| server | weights |" + "".join(f" N={n} |" for n in widths) + TITLES)
            print("|---|---|" + "---|" * len(widths) + "---|---|---|")
        print("| " + " | ".join(_row(contestant, report)) + " |", flush=True)


TITLES = " verdict | can join | longest pause for a long prompt |"


def _examined(contestant: Contestant) -> Report:
    server = contestant.server()
    with running(server) as url, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "dspark_tui", "bench", url, "--model", server.model]
        command += ["--n", WIDTHS, "--tokens", TOKENS, "--repeat", ROUNDS, "--probes", PROBES]
        done = subprocess.run(
            [*command, *contestant.options, "--json", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        if not file.exists():
            raise SystemExit(f"{contestant.name}: {done.stderr.strip()}")
        return Report.model_validate_json(file.read_bytes())


def _row(contestant: Contestant, report: Report) -> Iterator[str]:
    yield contestant.name
    yield contestant.weights
    for width in report.widths:
        yield f"{width.tokens_per_second:.1f}"
    yield " + ".join(finding.name for finding in report.findings)
    joined = next((probe for probe in report.probes if probe.kind is Kind.STAGGERED), None)
    yield "not asked" if joined is None else str(joined.finding or "yes")
    yield _pause(report)


def _pause(report: Report) -> str:
    """The longest gap in a stream that a long prompt joined."""
    rounds = [r.round() for r in report.rounds if r.kind is Kind.JOIN]
    gaps = [record.longest_gap for round_ in rounds for record in round_.records[:-1]]
    return f"{max(gaps):.2f} s" if gaps else ""
