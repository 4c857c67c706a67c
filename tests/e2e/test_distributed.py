"""One model over two ranks on this machine: the same answers, and what happens when one goes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import mlx.core as mx
import pytest

from engine.distributed import mpi
from engine.models.errors import ModelError
from tests.e2e.waiting import wait_until
from tests.e2e.workers import START_SECONDS, RunningWorker, data_of
from tests.processes import children, ended
from tests.tiny import tiny_llama
from tests.tiny_families import tiny_family

LOOPBACK = {"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}
RING, MPI = {"backend": "ring"}, {"backend": "mpi"}
MPI_OVER_TCP = {**MPI, "envs": ["OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self"]}
"""As between machines; on one, Open MPI takes memory that the ranks share."""
REQUESTS = 50
ENDLESS = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 90_000}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return tiny_llama(folder / "tiny", ends=False, max_position_embeddings=100_000)


@pytest.fixture(scope="module")
def hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two ranks over a ring, or over what a test asks for."""
    backend = getattr(request, "param", RING)
    available(backend["backend"])
    file = {**backend, "hosts": [LOOPBACK, LOOPBACK]}
    return written(tmp_path_factory.mktemp("hosts"), file)


def available(backend: str) -> None:
    if backend == "mpi":
        try:
            mpi.launcher()
        except ModelError as error:
            pytest.skip(str(error))


def written(folder: Path, content: Any) -> Path:
    path = folder / "hosts.json"
    path.write_text(json.dumps(content))
    return path


def health(worker: RunningWorker) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{worker.url}/health").json()
    return answer


def capability(worker: RunningWorker, feature: str) -> dict[str, Any]:
    (stated,) = (c for c in health(worker)["capabilities"] if c["feature"] == feature)
    return dict(stated)


def second_rank(worker: RunningWorker, division: str = "tensor parallel") -> int:
    """The process of rank 1, as people can read it."""
    stated = capability(worker, "distributed")
    assert stated["effective"] == f"2 ranks, {division}"
    found = re.search(r"rank 1 \(127\.0\.0\.1\), process (\d+)", stated["why"])
    assert found, stated
    return int(found[1])


def speculation(worker: RunningWorker) -> dict[str, Any]:
    """How it goes."""
    state: dict[str, Any] = httpx.get(f"{worker.url}/engine/state").json()
    return state["speculation"] or {}


def answers(worker: RunningWorker, requests: int = REQUESTS) -> list[str]:
    """To many requests at once: prompts of several lengths, greedy and sampled ones, and some whose
    answers of three different tokens can be foreseen in part."""

    def ask(number: int) -> str:
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": f"Request {number}. " * (1 + number % 3)}],
            "max_tokens": 6 + number % 5,
            "temperature": 0.8 * (number % 2),
            "seed": number,
        }
        if number % 3 == 1:
            body |= {"max_tokens": 30, "logit_bias": {"70": 90, "71": 90, "72": 88}}
        response = httpx.post(f"{worker.url}/v1/chat/completions", json=body, timeout=300)
        assert response.status_code == 200, response.text
        text: str = response.json()["choices"][0]["message"]["content"]
        return text

    with ThreadPoolExecutor(requests) as pool:
        return list(pool.map(ask, range(requests)))


@contextlib.contextmanager
def serving(model: Path, hosts: Path, *more: str) -> Iterator[RunningWorker]:
    """Two ranks that are ready."""
    options = ("--model", model, "--port", "0", "--max-batch", "16", "--distributed", hosts)
    with RunningWorker(*options, *more) as worker:
        wait_until(lambda: worker.lines, "it is ready, or says why not", START_SECONDS)
        yield worker


@contextlib.contextmanager
def streaming(worker: RunningWorker) -> Iterator[list[str]]:
    """The frames of an answer without an end, as they come; complete at the end."""
    frames: list[str] = []

    def follow() -> None:
        with (
            contextlib.suppress(httpx.RemoteProtocolError),
            httpx.stream(
                "POST",
                f"{worker.url}/v1/chat/completions",
                json={**ENDLESS, "stream": True},
                timeout=300,
            ) as answer,
        ):
            frames.extend(data_of(answer))

    reader = threading.Thread(target=follow)
    reader.start()
    wait_until(lambda: len(frames) > 3, "the answer has begun")
    yield frames
    reader.join()


@pytest.mark.parametrize("hosts", [RING, MPI], indirect=True, ids=["ring", "mpi"])
def test_two_ranks_answer_as_one_does(model: Path, hosts: Path) -> None:
    with RunningWorker("--model", model, "--port", "0", "--max-batch", "16") as alone:
        expected = answers(alone)
        assert len(set(expected)) > REQUESTS / 2
    with serving(model, hosts, "--speculate", "ngram", "--max-draft", "6") as two:
        rank = second_rank(two)
        assert answers(two) == expected
        wait_until(lambda: speculation(two).get("acceptance"), "some drafts were right")
        with httpx.stream(
            "POST", f"{two.url}/v1/chat/completions", json={**ENDLESS, "stream": True}, timeout=60
        ) as left_early:
            next(data_of(left_early))
        wait_until(two.idle, "a request whose client left has ended on all ranks")
        again = REQUESTS // 5
        assert answers(two, again) == expected[:again], "now from prefixes that were kept"
        assert two.stop() == 0
        wait_until(lambda: ended(rank), "rank 1 has ended too")


def test_a_pipeline_answers_as_one_rank_does(hosts: Path, tmp_path: Path) -> None:
    """Three layers, so that one rank has more than the other; little room for prefixes, so that
    both have to forget the same ones; and drafts of the length that pays by rank 0's clock."""
    context, kept = 100_000, ("--prefix-cache", "60k")
    folder = tmp_path / "tiny"
    model = tiny_family(folder, "deepseek_v3", num_hidden_layers=3, max_position_embeddings=context)
    with RunningWorker("--model", model, "--port", "0", "--max-batch", "16", *kept) as alone:
        expected = answers(alone)
        assert len(set(expected)) > REQUESTS / 2
    with serving(model, hosts, "--pipeline", "--speculate", "auto", *kept) as two:
        rank = second_rank(two, "pipeline")
        assert answers(two) == expected
        again = REQUESTS // 5
        assert answers(two, again) == expected[:again], "now from prefixes that were kept"
        with streaming(two) as frames:
            os.kill(rank, signal.SIGKILL)
        error = json.loads(frames[-1])["error"]["message"]
        assert error.startswith(f"rank 1 (127.0.0.1), process {rank} ")


@pytest.mark.parametrize("hosts", [RING, MPI_OVER_TCP], indirect=True, ids=["ring", "mpi"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_dies_or_stops_is_named(
    model: Path, hosts: Path, number: signal.Signals
) -> None:
    with serving(model, hosts) as two:
        url, rank = two.url, second_rank(two)
        with streaming(two) as frames:
            os.kill(rank, number)
        error = json.loads(frames[-1])["error"]["message"]
        assert error.startswith(f"rank 1 (127.0.0.1), process {rank} ")
        killed = ("SIGKILL", "signal 9", "closed its connection")
        ends = killed if number is signal.SIGKILL else ("not heard of", "is stuck")
        assert any(words in error for words in ends)
        state = httpx.get(f"{url}/health")
        assert state.status_code == 503
        assert state.json()["error"] == error
        assert state.json()["running"] == 0
        refused = httpx.post(f"{url}/v1/chat/completions", json=ENDLESS)
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == error
        wait_until(lambda: ended(rank), "what is left of rank 1 is ended")
        assert two.stop() == 1, "whoever watches the process can tell"
    assert any(error in line for line in two.lines), "the person at the terminal is told"


@pytest.mark.parametrize("hosts", [MPI_OVER_TCP], indirect=True, ids=["mpi"])
def test_an_mpirun_that_is_killed_alone_takes_the_ranks_along(model: Path, hosts: Path) -> None:
    with serving(model, hosts) as two:
        rank = second_rank(two)
        (mpirun,) = children(two.process.pid)
        started = children(mpirun)
        assert rank in started
        with streaming(two) as frames:
            os.kill(mpirun, signal.SIGKILL)
        error = json.loads(frames[-1])["error"]["message"]
        assert error.endswith("ended with mpirun, which ended by SIGKILL")
        state = httpx.get(f"{two.url}/health")
        assert (state.status_code, state.json()["error"]) == (503, error)
        wait_until(lambda: all(map(ended, started)), "neither rank 1 nor the stand-in is left")
        assert two.stop() == 1


@pytest.mark.parametrize("hosts", [RING, MPI], indirect=True, ids=["ring", "mpi"])
def test_ranks_load_no_drafter_and_do_not_outlive_rank_0(model: Path, hosts: Path) -> None:
    with serving(model, hosts, "--speculate", "dspark") as two:
        rank, stated = second_rank(two), capability(two, "speculation")
        assert (stated["effective"], stated["refused"]) == ("off", True)
        assert stated["why"] == "ranks share no second model"
        with streaming(two):
            two.process.kill()
        wait_until(lambda: ended(rank), "rank 1 has noticed")


def test_a_model_that_cannot_be_divided_starts_no_rank(model: Path, tmp_path: Path) -> None:
    three = written(tmp_path, [LOOPBACK] * 3)
    with RunningWorker("--model", model, "--port", "0", "--distributed", three) as worker:
        assert worker.wait_for_end() == 1
    (line,) = worker.lines
    assert "3 ranks can't share this llama: its 4 attention heads are not divisible by 3" in line


def test_layers_that_keep_different_state_make_no_pipeline(hosts: Path, tmp_path: Path) -> None:
    """Of two layers, one rank would get the recurrent one and the other the attention."""
    model = tiny_family(tmp_path / "tiny", "qwen3_next")
    with RunningWorker("--model", model, "--port", "0", "--distributed", hosts) as worker:
        assert worker.wait_for_end() == 1
    (line,) = worker.lines
    assert "2 ranks can't share it: as a pipeline their layers would keep different" in line


@pytest.mark.parametrize("backend", ["ring", "mpi"])
def test_a_host_that_ssh_does_not_reach_is_one_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    available(backend)
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho first >&2\necho "ssh: no route to it" >&2\nexit 255\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    far = [LOOPBACK, {"ssh": "studio.local", "ips": ["192.0.2.1"]}]
    file = written(tmp_path, {"backend": backend, "hosts": far})
    with RunningWorker("--model", model, "--port", "0", "--distributed", file) as worker:
        assert worker.wait_for_end() == 1
    (line,) = worker.lines
    assert "rank 1 (studio.local) can't be started" in line
    assert "ssh: no route to it" in line


@pytest.mark.parametrize(
    ("backend", "told"), [("mpi", "it finds no Open MPI"), ("nccl", "MLX for CUDA")]
)
def test_a_backend_that_mlx_lacks_is_named_with_the_reason(
    model: Path, tmp_path: Path, backend: str, told: str
) -> None:
    available(backend)
    if backend == "nccl" and mx.distributed.is_available(backend):
        pytest.skip("this MLX has NCCL")
    file = {"backend": backend, "envs": ["MLX_MPI_LIBNAME=/none"], "hosts": [LOOPBACK] * 2}
    hosts = written(tmp_path, file)
    with RunningWorker("--model", model, "--port", "0", "--distributed", hosts) as worker:
        assert worker.wait_for_end() == 1
    (line,) = worker.lines
    assert f"MLX has no {backend} backend on this machine: " in line
    assert told in line


def test_a_pipeline_is_one_of_ranks(model: Path) -> None:
    with RunningWorker("--model", model, "--port", "0", "--pipeline") as worker:
        assert worker.wait_for_end() == 2
    (line,) = worker.lines
    assert "name them with --distributed" in line


def test_a_hosts_file_that_cannot_work_is_one_line(model: Path, tmp_path: Path) -> None:
    one = written(tmp_path, [LOOPBACK])
    with RunningWorker("--model", model, "--port", "0", "--distributed", one) as worker:
        assert worker.wait_for_end() == 2
    (line,) = worker.lines
    assert "a model is shared by two ranks or more, and it names 1" in line
