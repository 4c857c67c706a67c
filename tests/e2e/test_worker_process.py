"""The worker as a process: how it starts, refuses to start, and ends."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.waiting import wait_until
from tests.e2e.workers import RunningWorker, data_of
from tests.tiny import tiny_llama

CHAT = [{"role": "user", "content": "Tell me about slots."}]
REFUSES_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{{ m['content'] }}{% endfor %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return tiny_llama(folder / "tiny", ends=False, max_position_embeddings=100_000)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_open_streams_and_the_process(model: Path, number: signal.Signals) -> None:
    with RunningWorker("--model", model, "--port", "0") as worker:
        body = {"messages": CHAT, "stream": True}
        with (
            httpx.Client(base_url=worker.url, timeout=60) as http,
            http.stream("POST", "/v1/chat/completions", json=body) as answer,
            http.stream("GET", "/engine/events") as events,
        ):
            frames, happenings = data_of(answer), data_of(events)
            next(frames)
            assert json.loads(next(happenings))["event"] == "snapshot"
            worker.process.send_signal(number)
            *_, last = frames
            *_, farewell = happenings
        assert worker.wait_for_end() == 0
    assert json.loads(last)["error"]["code"] == "engine_unavailable"
    assert json.loads(farewell)["status"] == "stopping"
    assert len(worker.lines) == 1, worker.lines


def test_a_taken_port_is_told_before_anything_loads(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with RunningWorker("--model", model, "--port", str(port)) as worker:
            assert worker.wait_for_end() == 2
    assert worker.lines == [
        f"engine: port {port} on 127.0.0.1 is taken; stop what uses it or choose another --port\n"
    ]


def test_an_unknown_model_is_told_before_anything_loads(sockets: Path) -> None:
    path = sockets / "engine.sock"
    with RunningWorker("--model", "/no/such/model", "--socket", path) as worker:
        assert worker.wait_for_end() == 2
    assert worker.lines == ["engine: there is no model at /no/such/model\n"]
    assert not path.exists()


def test_a_folder_that_is_no_model_is_told_before_anything_loads(tmp_path: Path) -> None:
    with RunningWorker("--model", tmp_path, "--port", "0") as worker:
        assert worker.wait_for_end() == 2
    assert worker.lines == [f"engine: {tmp_path} is no model folder: it has no config.json\n"]


def test_a_log_that_cannot_be_written_is_told(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = tmp_path / "file" / "log"
    with RunningWorker("--model", model, "--port", "0", "--log", log) as worker:
        assert worker.wait_for_end() == 2
    assert worker.lines == [f"engine: can't write the log {log}; name another file with --log\n"]


def test_a_missing_temporary_folder_is_named(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with RunningWorker("--model", model, "--port", "0") as worker:
        assert worker.wait_for_end() == 2
    (line,) = worker.lines
    assert "TMPDIR" in line


class PatientWorker(RunningWorker):
    command = ("tests.e2e.patient_worker",)


def unloadable(folder: Path) -> Path:
    """A model folder whose weights are not there."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


@pytest.mark.parametrize("attached", [False, True])
def test_a_model_that_cannot_load_ends_the_process(
    sockets: Path, tmp_path: Path, attached: bool
) -> None:
    folder = unloadable(tmp_path / "no weights")
    path, log = sockets / "engine.sock", tmp_path / "log"
    options = ("--model", folder, "--socket", path, "--log", log)
    with RunningWorker(*options, parent_pipe=attached) as worker:
        assert worker.wait_for_end() == 1
    (line,) = worker.lines
    assert "lacks weights" in line
    assert str(log) in line
    assert "Traceback" in log.read_text()


def health_over(path: Path) -> dict[str, object] | None:
    """What `/health` says on a Unix socket; None while nobody answers."""
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as http:
            health: dict[str, object] = http.get("http://engine/health").json()
            return health
    except httpx.TransportError:
        return None


def test_an_attached_workbench_sees_why_loading_failed(sockets: Path, tmp_path: Path) -> None:
    folder, path = unloadable(tmp_path / "no weights"), sockets / "engine.sock"
    with PatientWorker("--model", folder, "--socket", path, parent_pipe=True) as worker:
        wait_until(lambda: health_over(path), "it answers")
        with (
            httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=60) as http,
            http.stream("GET", "http://engine/engine/events") as events,
        ):
            happenings = (json.loads(data) for data in data_of(events))
            failure = next(event for event in happenings if event.get("status") == "failed")
        assert worker.process.stdin is not None
        worker.process.stdin.close()  # enough was seen
        assert worker.wait_for_end() == 1
    assert "lacks weights" in failure["error"]
    assert failure["error"] in worker.lines[0]


def test_the_worker_goes_when_its_parent_does(model: Path, sockets: Path) -> None:
    path = sockets / "run" / "engine.sock"
    with RunningWorker("--model", model, "--socket", path, parent_pipe=True) as worker:
        assert worker.url == f"unix://{path}"
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.stat().st_mode & 0o077 == 0
        with RunningWorker("--model", model, "--socket", path) as second:
            assert second.wait_for_end() == 2
        assert "another engine is listening" in second.lines[0]
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        assert worker.wait_for_end() == 0
    assert not path.exists()


def test_the_worker_goes_even_while_it_starts(model: Path, sockets: Path) -> None:
    path = sockets / "engine.sock"
    with RunningWorker("--model", model, "--socket", path, parent_pipe=True) as worker:
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        assert worker.wait_for_end() == 0


def test_the_socket_of_a_dead_worker_is_taken_over(model: Path, sockets: Path) -> None:
    path = sockets / "engine.sock"
    with RunningWorker("--model", model, "--socket", path) as first:
        wait_until(path.exists, "it listens")
        first.process.kill()
        first.wait_for_end()
    assert path.exists()
    with RunningWorker("--model", model, "--socket", path) as second:
        assert second.url
        health = health_over(path)
        assert health is not None
        assert health["pid"] == second.process.pid
        assert second.stop() == 0


@pytest.fixture(scope="module")
def picky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("picky") / "picky"
    return tiny_llama(folder, seed=1, chat_template=REFUSES_SYSTEM)


@pytest.fixture(scope="module")
def pair(model: Path, picky: Path) -> Iterator[tuple[RunningWorker, RunningWorker]]:
    with (
        RunningWorker("--model", model, "--port", "0") as one,
        RunningWorker("--model", picky, "--port", "0") as other,
    ):
        yield one, other


def test_two_engines_run_side_by_side(pair: tuple[RunningWorker, RunningWorker]) -> None:
    answers = []
    for worker in pair:
        with worker.openai() as client:
            answer = client.chat.completions.create(model="any", messages=CHAT, max_tokens=5)
            answers.append(answer.model)
    assert answers == ["tiny", "picky"]
    assert os.getpid() not in {worker.state().pid for worker in pair}


def test_a_template_that_refuses_a_role_is_quoted(
    pair: tuple[RunningWorker, RunningWorker],
) -> None:
    chat = [{"role": "system", "content": "be brief"}, *CHAT]
    response = httpx.post(f"{pair[1].url}/v1/chat/completions", json={"messages": chat})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "System role not supported"
