"""Hub models through the hub's own library, against a small hub on this machine."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.tiny import tiny_llama

REVISION = "a" * 40
UNREACHABLE = "http://127.0.0.1:9"

SCRIPT = """
import sys
from engine.models import catalog
heard = []
def hear(progress):
    heard.append(progress)
    if sys.argv[2:] == ["stop"] and progress.done:
        raise KeyboardInterrupt
try:
    print(catalog.ensure(catalog.resolve(sys.argv[1]), hear))
except catalog.ModelError as error:
    print("refused:", error)
except KeyboardInterrupt:
    print("stopped")
else:
    print(*(f"{p.done}/{p.total}" for p in heard[-1:]))
"""


@dataclass
class Hub:
    """A hub with one model, org/tiny, and the paths it was asked for."""

    files: dict[str, bytes]
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        if path.startswith("/api/models/org/tiny/revision/"):
            return 200, json.dumps({"id": "org/tiny", "sha": REVISION, "siblings": []}).encode(), {}
        if path.startswith("/api/models/org/tiny/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": _sha1(data)}
                for name, data in self.files.items()
            ]
            return 200, json.dumps(tree).encode(), {}
        name = path.removeprefix(f"/org/tiny/resolve/{REVISION}/")
        if name in self.files:
            data = self.files[name]
            return 200, data, {"ETag": f'"{_sha1(data)}"', "X-Repo-Commit": REVISION}
        code = "GatedRepo" if "gated" in path else "RepoNotFound"
        return (403 if "gated" in path else 404), b"{}", {"X-Error-Code": code}


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tiny_llama(tmp_path_factory.mktemp("hub"))
    (folder / "code.py").write_text("raise SystemExit('never run')")
    small_hub = Hub({file.name: file.read_bytes() for file in folder.iterdir()})

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.wfile.write(self.do_HEAD())

        def do_HEAD(self) -> bytes:
            path = self.path.partition("?")[0]
            small_hub.asked.append(path)
            status, body, headers = small_hub.answer(path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            return body

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    small_hub.url = f"http://127.0.0.1:{server.server_port}"
    yield small_hub
    server.shutdown()
    server.server_close()
    thread.join()


def ensure(cache: Path, url: str, name: str, *more: str) -> list[str]:
    """What a process that wants model `name` prints; the hub's library reads its settings once."""
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, *more],
        env={**os.environ, "HF_ENDPOINT": url, "HF_HUB_CACHE": str(cache)},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.stderr == ""
    return finished.stdout.splitlines()


def test_fetched_with_progress_and_then_used_offline(hub: Hub, tmp_path: Path) -> None:
    folder, progress = ensure(tmp_path, hub.url, "org/tiny")
    wanted = {name: data for name, data in hub.files.items() if name != "code.py"}
    assert {file.name: file.read_bytes() for file in Path(folder).iterdir()} == wanted
    size = sum(len(data) for data in wanted.values())
    assert progress == f"{size}/{size}"
    assert ensure(tmp_path, UNREACHABLE, "org/tiny")[0] == folder


def test_stopped_when_asked_and_whole_the_next_time(hub: Hub, tmp_path: Path) -> None:
    assert ensure(tmp_path, hub.url, "org/tiny", "stop") == ["stopped"]
    folder = Path(ensure(tmp_path, hub.url, "org/tiny")[0])
    assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/absent", "has no model org/absent"),
        ("org/gated", "https://huggingface.co/org/gated"),
        ("org/a--b", "is no hub model name"),
    ],
)
def test_the_hubs_refusals(hub: Hub, tmp_path: Path, name: str, message: str) -> None:
    (line,) = ensure(tmp_path, hub.url, name)
    assert line.startswith("refused: ")
    assert message in line


def test_no_network_says_what_to_do(tmp_path: Path) -> None:
    (line,) = ensure(tmp_path, UNREACHABLE, "org/tiny")
    assert "no network" in line
    assert "--model FOLDER" in line
