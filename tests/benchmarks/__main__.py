"""`python -m tests.benchmarks [NAME …]`: measure, side by side in one run, and print tables.

Every figure the README quotes comes from one of these. Without names, all of them run.
"""

from __future__ import annotations

import argparse
import importlib
import platform

BENCHMARKS = {
    "aggregate": "tokens per second by completion times, ours beside mlx_lm.server",
    "lone": "one request alone, ours beside mlx_lm's own generate",
    "sampling": "penalties and log-probabilities on every row beside plain rows",
    "speculation": "what checking drafts costs, and plain decoding beside drafts, alone and at 8",
    "recurrent": "rejected drafts in recurrent states: replayed, or read with the next draft",
    "joining": "a short request and a long prompt joining running streams",
    "broadcast": "one long prompt to eight panes beside one request of it",
    "crowd": "64 clients at random, many badly behaved, ours beside mlx_lm.server",
    "soak": "2,000 requests at random, a third cancelled: right answers, level memory",
    "matmul": "products of few rows, whole and in slabs",
    "ranks": "how soon a lost rank is told, and what two ranks on one machine cost",
    "startup": "command start and first paint of the workbench",
    "bench_overhead": "the bench's times beside the log of the server it measured",
    "real_servers": "ours, mlx_lm.server and llama.cpp's server under the same bench",
    "store": "a database of 200,000 messages: opening, searching, deleting",
    "kills": "what kill -9 costs while panes stream",
    "ui_load": "the workbench under eight streaming panes",
    "panel": "what drawing the batch panel four times a second costs the workbench",
    "pasting": "1 MB pasted into the composer",
    "scrollback": "scrolling and wrapping a transcript of 30,000 tokens",
    "themes": "a theme switch with 600 blocks on eight panes",
    "memory": "the workbench's memory after a day of streaming",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    known = ", ".join(f"{name} ({what})" for name, what in BENCHMARKS.items())
    parser.add_argument("names", nargs="*", metavar="NAME", help=known)
    names = parser.parse_args().names or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    print(f"{platform.machine()} · {platform.system()} · Python {platform.python_version()}")
    for name in names:
        print(f"\n## {name}: {BENCHMARKS[name]}\n", flush=True)
        importlib.import_module(f"tests.benchmarks.{name}").main()


if __name__ == "__main__":
    main()
