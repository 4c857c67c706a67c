"""A rank that is killed, and one that is stopped: how long until requests end with its name.

Beside it, tokens per second of eight requests on one rank and on two that share this machine, in
tensor parallel and as a pipeline; two ranks on one machine gain nothing, so this shows what the
ranks' talk costs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.e2e.workers import RunningWorker, data_of
from tests.tiny_families import tiny_family

LOOPBACK = {"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}
ROWS, TOKENS = 8, 64


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_family(Path(folder) / "tiny", "deepseek_v3", max_position_embeddings=100_000)
        one = ["--model", str(model), "--port", "0"]
        with RunningWorker(*one) as worker:
            alone = tokens_per_second(worker.url)
        print(f"one rank {alone:.0f} tokens/s")
        for backend in ("ring", "mpi"):
            hosts = Path(folder) / f"{backend}.json"
            hosts.write_text(json.dumps({"backend": backend, "hosts": [LOOPBACK, LOOPBACK]}))
            measure(backend, [*one, "--distributed", str(hosts)], alone)


def measure(backend: str, two: list[str], alone: float) -> None:
    for name, options in (("tensor parallel", two), ("pipeline", [*two, "--pipeline"])):
        with RunningWorker(*options) as worker:
            shared = tokens_per_second(worker.url)
        print(f"two on this machine, {backend}, {name}: {shared / alone:.0%} of that")
    for number in (signal.SIGKILL, signal.SIGSTOP):
        with RunningWorker(*two) as worker:
            seconds, error = until_told(worker.url, number)
        print(f"{backend}, {number.name} to error {seconds:5.2f} s (at most 10): {error}")


def tokens_per_second(url: str) -> float:
    def ask(number: int) -> None:
        body = {**chat(number), "max_tokens": TOKENS}
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300).raise_for_status()

    ask(ROWS)
    started = time.monotonic()
    with ThreadPoolExecutor(ROWS) as pool:
        list(pool.map(ask, range(ROWS)))
    return ROWS * TOKENS / (time.monotonic() - started)


def until_told(url: str, number: signal.Signals) -> tuple[float, str]:
    """Seconds from a signal to rank 1 until a streaming request ends, and its error."""
    capabilities = httpx.get(f"{url}/health", timeout=60).json()["capabilities"]
    (why,) = (c["why"] for c in capabilities if c["feature"] == "distributed")
    processes = re.findall(r"process (\d+)", why)
    body = {**chat(0), "max_tokens": 90_000, "stream": True}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=300) as answer:
        frames = data_of(answer)
        next(frames)
        os.kill(int(processes[0]), number)
        started = time.monotonic()
        *_, last = frames
    return time.monotonic() - started, json.loads(last)["error"]["message"]


def chat(number: int) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": f"Request {number}."}], "temperature": 0}
