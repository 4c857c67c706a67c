"""64 clients at random for two minutes, ours beside mlx_lm.server.

Two requests in five are cut off, oversized, garbage or impossible. The model is tiny, so that what
is under load is the server. Proper requests are greedy and have a right answer: what the server
says to that prompt alone, before the crowd comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.benchmarks.servers import Server, mlx_lm_same_blas, ours, running
from tests.tiny import tiny_llama

SECONDS = float(os.environ.get("BENCH_SECONDS", "120"))
CLIENTS = 64
PROMPTS = [f"Tell me about number {number}, and why it waits." for number in range(12)]
TOKENS = 24
PATIENCE = 60.0
OVERSIZE = 17 * 1024 * 1024
PATH = "/v1/chat/completions"

RIGHT, WRONG, BUSY, LOST = "right", "wrong", "busy", "lost"
REFUSED, TAKEN = "refused", "taken"


@dataclass
class Crowd:
    """What the clients met. right: each prompt's answer. memory: MB of the server, by the time."""

    url: str
    model: str
    right: dict[str, str] = field(default_factory=dict)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)

    def body(self, prompt: str, **more: object) -> dict[str, object]:
        chat = [{"role": "user", "content": prompt}]
        fixed = {"model": self.model, "temperature": 0, "max_tokens": TOKENS}
        return {"messages": chat, **fixed, **more}

    def judge(self, prompt: str, text: str) -> str:
        return RIGHT if text == self.right[prompt] else WRONG


Act = Callable[[Crowd, httpx.AsyncClient, random.Random], Awaitable[str]]


async def whole(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random) -> str:
    prompt = draw.choice(PROMPTS)
    answer = await http.post(PATH, json=crowd.body(prompt))
    if answer.status_code == 429:
        return BUSY
    if answer.status_code != 200:
        return WRONG
    return crowd.judge(prompt, answer.json()["choices"][0]["message"]["content"])


async def streamed(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random) -> str:
    prompt = draw.choice(PROMPTS)
    text = ""
    async with http.stream("POST", PATH, json=crowd.body(prompt, stream=True)) as answer:
        if answer.status_code == 429:
            return BUSY
        async for line in answer.aiter_lines():
            if line == "data: [DONE]":
                return crowd.judge(prompt, text)
            if line.startswith("data: "):
                for choice in json.loads(line.removeprefix("data: ")).get("choices", ()):
                    text += choice["delta"].get("content") or ""
    return LOST


async def leaves(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random) -> str:
    """Goes away in the middle of a long stream."""
    body = crowd.body(draw.choice(PROMPTS), stream=True, max_tokens=2000)
    async with http.stream("POST", PATH, json=body) as answer:
        async for _ in answer.aiter_lines():
            if draw.random() < 0.3:
                break
    return TAKEN


async def oversize(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random) -> str:
    text = json.dumps(crowd.body(draw.choice(PROMPTS)))
    headers = {"Content-Type": "application/json"}
    answer = await http.post(PATH, content=text.ljust(OVERSIZE), headers=headers)
    return REFUSED if answer.status_code == 413 else TAKEN


async def garbage(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random) -> str:
    bodies = (b"{", b"\xff\xfe", b"[]", b'{"messages": 3}', draw.randbytes(200))
    headers = {"Content-Type": "application/json"}
    answer = await http.post(PATH, content=draw.choice(bodies), headers=headers)
    return REFUSED if answer.status_code == 400 and "error" in answer.json() else TAKEN


async def impossible(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random) -> str:
    wrong = draw.choice([{"temperature": -1}, {"logit_bias": {"999999999": 1}}, {"stop": [1]}])
    answer = await http.post(PATH, json=crowd.body(PROMPTS[0], **wrong))
    return REFUSED if answer.status_code == 400 and "error" in answer.json() else TAKEN


ACTS: dict[str, tuple[Act, int]] = {
    "whole": (whole, 6),
    "streamed": (streamed, 6),
    "leaves": (leaves, 3),
    "garbage": (garbage, 2),
    "impossible": (impossible, 2),
    "oversize": (oversize, 1),
}
"""What a client may do next, and how often among twenty times."""


COLUMNS = (
    "server",
    "whole: right, wrong, unanswered",
    "streamed: the same",
    "left/all",
    "garbage: refused/all",
    "impossible: refused/all",
    "oversize: refused/all",
    "right answers/s",
    "MB after a quarter → at the end",
    "idle again",
)


def main() -> None:
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_llama(Path(folder) / "tiny", max_position_embeddings=4096)
        for server in (ours(model), mlx_lm_same_blas(model)):
            with running(server) as url:
                crowd = Crowd(url, server.model)
                try:
                    asyncio.run(_besiege(crowd))
                finally:
                    print(_row(server, crowd), flush=True)


async def _besiege(crowd: Crowd) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=crowd.url, timeout=PATIENCE, limits=limits) as http:
        for prompt in PROMPTS:
            answer = (await http.post(PATH, json=crowd.body(prompt))).json()
            crowd.right[prompt] = answer["choices"][0]["message"]["content"]
        until = time.monotonic() + SECONDS
        clients = [_client(crowd, http, random.Random(seed), until) for seed in range(CLIENTS)]
        await asyncio.gather(_watch(crowd, until), *clients)


async def _client(crowd: Crowd, http: httpx.AsyncClient, draw: random.Random, until: float) -> None:
    names = list(ACTS)
    weights = [often for _, often in ACTS.values()]
    while time.monotonic() < until:
        (name,) = draw.choices(names, weights)
        try:
            met = await ACTS[name][0](crowd, http, draw)
        except (httpx.HTTPError, ValueError, LookupError):
            met = LOST
        crowd.met[name, met] += 1
        await asyncio.sleep(draw.random() * 0.2)


async def _watch(crowd: Crowd, until: float) -> None:
    while (left := until - time.monotonic()) > 0:
        crowd.memory.append(await asyncio.to_thread(_server_memory))
        await asyncio.sleep(min(left, SECONDS / 40))


def _server_memory() -> float:
    """MB of this process's one lasting child."""
    shown = subprocess.run(["ps", "-A", "-o", "ppid=,rss="], capture_output=True, text=True)
    rows = (line.split() for line in shown.stdout.splitlines())
    return max((int(rss) / 1e3 for parent, rss in rows if int(parent) == os.getpid()), default=0.0)


def _row(server: Server, crowd: Crowd) -> str:
    def share(name: str, good: str) -> str:
        asked = sum(count for (act, _), count in crowd.met.items() if act == name)
        return f"{crowd.met[name, good]}/{asked}"

    def proper(name: str) -> str:
        return " · ".join(str(crowd.met[name, met]) for met in (RIGHT, WRONG, LOST))

    right = crowd.met["whole", RIGHT] + crowd.met["streamed", RIGHT]
    quarter = crowd.memory[len(crowd.memory) // 4 :]
    memory = f"{quarter[0]:.0f} → {quarter[-1]:.0f}" if quarter else "–"
    columns = [
        *(server.name, proper("whole"), proper("streamed"), share("leaves", TAKEN)),
        *(share("garbage", REFUSED), share("impossible", REFUSED), share("oversize", REFUSED)),
        *(f"{right / SECONDS:.1f}", memory, _idle(crowd)),
    ]
    return f"| {' | '.join(columns)} |"


def _idle(crowd: Crowd) -> str:
    """Does it answer at once, and does nothing run any more?"""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            health = httpx.get(f"{crowd.url}/health", timeout=PATIENCE).json()
            if health.get("running", 0) == health.get("queue", 0) == 0:
                httpx.post(f"{crowd.url}{PATH}", json=crowd.body(PROMPTS[0]), timeout=PATIENCE)
                return "yes"
        except httpx.HTTPError:
            return "no"
        time.sleep(0.5)
    return "no"


if __name__ == "__main__":
    main()
