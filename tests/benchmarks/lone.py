"""A lone request through our server beside mlx_lm's generate in-process, same BLAS, fp32.

Ours pays for HTTP, events and text on top; the ratio says whether batching costs a lone request
anything. Runs alternate, so that drift hits both.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from engine.hardware import blas
from engine.proof.prompts import Prompts
from engine.proof.traffic import Ask, Record
from tests.benchmarks.servers import embedded, embedded_fp32, ours, running
from tests.benchmarks.traffic import complete, endpoint, seconds

TOKENS = 96
PAIRS = 5

GENERATE = """
from engine.hardware import blas; blas.prepare()
import json, sys, time
from mlx_lm import load, stream_generate
model, tokenizer = load(sys.argv[1])
for line in sys.stdin:
    messages = [{"role": "user", "content": json.loads(line)}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    start = time.perf_counter()
    count = sum(1 for _ in stream_generate(model, tokenizer, prompt, max_tokens=int(sys.argv[2])))
    print(json.dumps([count, time.perf_counter() - start]), flush=True)
"""


class Generator:
    """mlx_lm's stream_generate in a process of its own, so that it is idle while ours runs."""

    def __init__(self, folder: Path) -> None:
        env = os.environ | {"OPENBLAS_NUM_THREADS": str(blas.thread_count())}
        self._process = subprocess.Popen(
            [sys.executable, "-c", GENERATE, str(folder), str(TOKENS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )

    def rate(self, prompt: str) -> float:
        """Tokens per second from the call to the last token."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(prompt) + "\n")
        self._process.stdin.flush()
        count, seconds = json.loads(self._process.stdout.readline())
        return count / seconds

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    generator = Generator(embedded_fp32())
    server = ours(embedded())
    with running(server) as url:
        pairs = asyncio.run(_pairs(url, server.model, generator))
    generator.close()
    for mine, theirs in pairs:
        print(f"  ours {mine:.1f} tok/s, mlx_lm generate {theirs:.1f} tok/s: {mine / theirs:.2f}×")
    print(f"median ratio: {median(mine / theirs for mine, theirs in pairs):.2f}×")


async def _pairs(url: str, model: str, generator: Generator) -> list[tuple[float, float]]:
    """Rates of ours and theirs, measured in turn."""
    prompt = Prompts().short()
    generator.rate(prompt)  # warm-up
    pairs = []
    async with endpoint(url, model) as server:
        for _ in range(PAIRS):
            theirs = generator.rate(prompt)
            run = await complete(server, Record(Ask(prompt, TOKENS)))
            pairs.append((run.tokens / seconds(run), theirs))
    return pairs
