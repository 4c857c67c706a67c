"""How mpirun is called, what rank 0's stand-in lends, and what a person hears of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.distributed import mpi, token
from engine.distributed.hosts import Backend, Hosts, RankHost
from engine.distributed.messages import Hello
from engine.distributed.rank import Rank
from engine.models.errors import ModelError
from tests.e2e.waiting import wait_until

LEADER = ("10.0.0.1", 4000)
NAMES = ("studio-1.local", "studio-2.local", "127.0.0.1", "studio-2.local")
HOSTS = Hosts(
    backend=Backend.MPI,
    ranks=tuple(RankHost(number, name, ("10.0.0.1",)) for number, name in enumerate(NAMES)),
    rdma=(),
    environment={},
)
RULE = "-" * 74
KILLED = f"{RULE}\nmpirun noticed that process rank 1\nexited on signal 9.\n{RULE}"
FAILED = f"{RULE}\nA process exited with a non-zero status.\n{RULE}"


def option(part: list[str], name: str) -> str:
    return part[part.index(name) + 1]


def test_each_rank_is_started_on_its_machine_and_in_its_place() -> None:
    parts = " ".join(mpi.command("/opt/bin/mpirun", HOSTS, LEADER)).split(" : ")
    words = [part.split() for part in parts]
    assert words[0][0] == "/opt/bin/mpirun"
    machines = [option(part, "--host") for part in words]
    assert machines == ["localhost:2", "studio-2.local:2"] * 2, (
        "rank 0 runs here, whatever its name"
    )
    ranks = [part[-4:] for part in words]
    assert ranks == [[str(number), "10.0.0.1", "4000", "10.0.0.1"] for number in range(4)]
    assert all(option(part, "-n") == "1" for part in words)


def test_the_token_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = token.new()
    monkeypatch.setenv(token.VARIABLE, shown.decode())
    command = mpi.command("mpirun", HOSTS, LEADER)
    assert command.count(token.VARIABLE) == len(HOSTS)
    assert shown.decode() not in " ".join(command)
    assert token.given() == shown


def test_a_stand_in_lends_its_place_and_nothing_else() -> None:
    place = {"PMIX_RANK": "0", "PMIX_NAMESPACE": "job@1", "OMPI_COMM_WORLD_SIZE": "2"}
    lent = mpi.lent({**place, token.VARIABLE: "secret", "HOME": "/root", "TMPDIR": "/tmp/x"})
    assert lent == place | mpi.QUIET


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (KILLED, ": mpirun noticed that process rank 1 exited on signal 9."),
        (f"{RULE}\nA note.\n{RULE}\n[studio:1] *** Aborting\n a warning\n{KILLED}", "on signal 9."),
        (f"python: no module named engine\n{FAILED}", ": python: no module named engine"),
        (f"[studio:1] *** Aborting\n{FAILED}", ": A process exited with a non-zero status."),
        ("ssh: no route to studio.local\n", ": ssh: no route to studio.local"),
        (f"{RULE}\n{'slots ' * 100}\n{RULE}", "slots…"),
        ("", "ended with mpirun"),
    ],
)
def test_what_mpirun_and_the_ranks_wrote_becomes_one_line(
    said: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "said"
    file.write_text(said)
    end = mpi.MpiRun("mpirun", ["sh", "-c", f"cat {file} >&2; exit 1"]).ended(60)
    assert end is not None
    assert end.startswith("ended with mpirun")
    assert end.endswith(told)
    assert "\n" not in end
    assert len(end) < 350


def test_mpirun_is_left_alone_until_it_was_told_to_end() -> None:
    run = mpi.MpiRun("mpirun", ["sleep", "600"])
    run.close(0)
    assert run.ended() is None
    run.kill()
    assert run.ended(60) is not None


def test_an_mpirun_that_does_not_listen_is_ended_all_the_same(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    run = mpi.MpiRun("mpirun", ["sh", "-c", f"trap '' TERM; touch {deaf}; exec sleep 600"])
    wait_until(deaf.exists, "it ignores the signal")
    run.kill()
    assert run.ended() is None
    run.close(0)
    assert run.ended(60) is not None


def test_a_rank_whose_mpirun_was_killed_is_ended_all_the_same() -> None:
    run = mpi.MpiRun("mpirun", ["sleep", "600"])
    orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
    here, there = (Rank(RankHost(1, name, ()), run) for name in ("127.0.0.1", "studio.local"))
    for rank in (here, there):
        rank.hello = Hello(1, orphan.pid, (), "")
    here.close(0)
    os.kill(run._process.pid, signal.SIGKILL)
    assert here.ended(60) == "ended with mpirun, which ended by SIGKILL"
    there.kill()
    assert orphan.poll() is None, "elsewhere its number means another process"
    here.close(0)
    assert orphan.wait(60) == -signal.SIGKILL


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation's folder, whose programs are in the path."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", "")
    return tmp_path


def test_without_mpirun_a_ring_is_proposed(place: Path) -> None:
    with pytest.raises(ModelError, match='install Open MPI, or use the backend "ring"'):
        mpi.launcher()


def test_the_library_beside_mpirun_is_taken(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    run = place / "bin" / "mpirun"
    run.touch(0o755)
    assert mpi.launcher() == str(run)
    assert mpi.library() == "libmpi.so.40", "wherever the system has it"
    library = place / "lib" / "libmpi.so.40"
    library.parent.mkdir()
    library.touch()
    assert mpi.library() == str(library)
