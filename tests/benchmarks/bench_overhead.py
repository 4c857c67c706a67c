"""The stopwatch's own error: `dspark-tui bench` beside the log of the server it measures.

The server is a process of its own that takes 5 ms a step, for 32 requests at once. Compared are
the time to the last end, and each request's time to its end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine.proof.report import Report, RequestReport
from tests.proof.loopback import Logged

WIDTH, TOKENS, REPEAT = 32, 128, 5


@dataclass(frozen=True)
class Comparison:
    """Seconds to the last end as the bench and as the server saw it, and the largest relative error
    of a request's time."""

    measured: float
    logged: float
    worst: float

    @classmethod
    def of(cls, requests: list[RequestReport], log: list[Logged]) -> Comparison:
        ours = sorted((q.end or 0) - (q.submit or 0) for q in requests)
        theirs = sorted(entry.answered - entry.arrived for entry in log)
        return cls(
            measured=max(q.end or 0 for q in requests) - min(q.submit or 0 for q in requests),
            logged=max(e.answered for e in log) - min(e.arrived for e in log),
            worst=max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True)),
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report, log = _measured(Path(folder))
    log = [entry for entry in log if entry.tokens == TOKENS]
    print(f"{report.command}\n")
    for round_ in report.rounds:
        count = len(round_.requests)
        one, log = Comparison.of(round_.requests, log[:count]), log[count:]
        print(
            f"  N={count:<3} last end {one.measured:.4f} s, by the server's log {one.logged:.4f} s "
            f"({one.measured / one.logged - 1:+.2%}); worst request {one.worst:.2%}"
        )


def _measured(folder: Path) -> tuple[Report, list[Logged]]:
    """What the bench and what the server wrote down."""
    report, log = folder / "report", folder / "log"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.proof.loopback", str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    command = [sys.executable, "-m", "dspark_tui", "bench", server.stdout.readline().strip()]
    command += ["--n", str(WIDTH), "--tokens", str(TOKENS), "--repeat", str(REPEAT)]
    try:
        subprocess.run(
            [*command, "--probes", "none", "--json", str(report)], check=True, capture_output=True
        )
    finally:
        server.communicate()  # closes its stdin: it writes the log and ends
    logged = [Logged(**json.loads(line)) for line in log.read_text().splitlines()]
    return Report.model_validate_json(report.read_bytes()), logged
